//! Termination signals as a descriptor that a poller can wait for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// A signal that asks the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
}

/// Receives SIGTERM and SIGINT; while it lives they do nothing else.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
}

impl Signals {
    /// Diverts the signals. To be called before other threads start: they inherit the mask that
    /// keeps the signals from ending the process.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub fn divert() -> io::Result<Signals> {
        let set = termination_set();
        change_mask(libc::SIG_BLOCK, &set);
        // SAFETY: the set is a live, initialised local, and -1 asks for a new descriptor.
        let raw =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: signalfd just returned this descriptor, and nothing else owns it.
        Ok(Signals { descriptor: unsafe { OwnedFd::from_raw_fd(raw) } })
    }

    /// Lets the signals end the process again. To be called from the thread that diverted them.
    pub fn restore(self) {
        change_mask(libc::SIG_UNBLOCK, &termination_set());
    }

    /// Returns the next signal that came, or none.
    pub fn next(&self) -> Option<Signal> {
        const RECORD_BYTES: usize = size_of::<libc::signalfd_siginfo>();
        let mut record = [0_u8; RECORD_BYTES];
        match rustix::io::read(&self.descriptor, &mut record) {
            Ok(RECORD_BYTES) => {}
            _ => return None,
        }
        // The record starts with the signal's number, 32 bits in the machine's (little) order.
        let number = u32::from_le_bytes([record[0], record[1], record[2], record[3]]);
        match number as i32 {
            libc::SIGINT => Some(Signal::Interrupt),
            _ => Some(Signal::Terminate),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Leaves SIGHUP without effect, so that a closed terminal does not end a server.
pub fn ignore_hangup() {
    // SAFETY: SIG_IGN installs no handler code.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

/// Leaves SIGXFSZ without effect: a write past the largest file that the process may make
/// (`ulimit -f`) fails with EFBIG, and does not end the process.
pub fn ignore_file_size_limit() {
    // SAFETY: SIG_IGN installs no handler code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn change_mask(how: libc::c_int, set: &libc::sigset_t) {
    // SAFETY: the set is a live, initialised value; a null old set is allowed.
    let code = unsafe { libc::pthread_sigmask(how, &raw const *set, std::ptr::null_mut()) };
    assert_eq!(code, 0, "pthread_sigmask fails only for an unknown `how`");
}

fn termination_set() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set that it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the line above initialised it.
    let mut set = unsafe { set.assume_init() };
    for number in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the set is initialised and the signal numbers are valid.
        unsafe { libc::sigaddset(&raw mut set, number) };
    }
    set
}
