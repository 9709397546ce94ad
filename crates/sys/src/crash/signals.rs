//! The signals that mean a crash: their handlers, the limit of time, and the end.

use std::mem::{MaybeUninit, zeroed};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Output, REPORTER, report_fault};
use crate::clock::monotonic_ns;

/// The signals that a program gets for what it did wrong.
const FATAL: [libc::c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// What a fatal signal brought.
pub(super) struct Fault {
    pub(super) signal: i32,
    code: i32,
    /// The address that could not be accessed.
    pub(super) address: Option<usize>,
    /// Process and user that sent it.
    sender: Option<(i32, u32)>,
    /// What the thread was at.
    pub(super) context: *const libc::ucontext_t,
}

impl Fault {
    /// # Safety
    /// Both pointers are those that the kernel has given to a handler, which still runs.
    unsafe fn new(
        signal: i32,
        info: *const libc::siginfo_t,
        context: *const libc::ucontext_t,
    ) -> Fault {
        // SAFETY: the caller promises that it is the kernel's, and it does not outlive the handler:
        // not null, aligned, initialised, and nobody writes it meanwhile.
        let info = unsafe { &*info };
        let code = info.si_code;
        let is_of_process = code <= 0;
        let has_address = matches!(signal, libc::SIGSEGV | libc::SIGBUS);
        Fault {
            signal,
            code,
            // SAFETY: the kernel has filled in this member for these signals.
            address: has_address.then(|| unsafe { info.si_addr() } as usize),
            // SAFETY: the kernel has filled in these members where the code says that a process
            // has sent the signal.
            sender: is_of_process.then(|| unsafe { (info.si_pid(), info.si_uid()) }),
            context,
        }
    }

    /// Writes the first lines of a report by the program `name`.
    pub(super) fn describe(&self, name: &str, output: &mut Output) {
        let Fault { signal, code, .. } = self;
        output.line(format_args!("{name} crashed by signal: {signal}, si_code: {code}"));
        match (self.sender, self.address) {
            (Some((process, user)), _) => {
                output.line(format_args!("Killed by PID: {process}, UID: {user}"));
            }
            (None, Some(address)) => {
                output.line(format_args!("Accessing address: {address:#x}"));
            }
            (None, None) => {}
        }
        if let Some(instruction) = self.instruction() {
            output.line(format_args!("Crashed running the instruction at: {instruction:#x}"));
        }
    }
}

/// What the signals did before.
static BEFORE: Mutex<[Option<libc::sigaction>; FATAL.len()]> = Mutex::new([None; FATAL.len()]);

/// Has the fatal signals of all threads lead to a report.
pub(super) fn take() {
    let mut before = BEFORE.lock().expect("no holder of the actions panics");
    for (signal, before) in FATAL.iter().zip(before.iter_mut()) {
        *before = Some(set_action(*signal, on_fault as *const () as usize));
    }
    set_action(libc::SIGALRM, on_alarm as *const () as usize);
}

/// Has them do what they did before.
pub(super) fn give_back() {
    let mut before = BEFORE.lock().expect("no holder of the actions panics");
    for (signal, before) in FATAL.iter().zip(before.iter_mut()) {
        if let Some(before) = before.take() {
            // SAFETY: it is a live action that the system has returned for this signal, so that its
            // handler still exists and fits its flags; a null third pointer asks for nothing.
            unsafe { libc::sigaction(*signal, &raw const before, ptr::null_mut()) };
        }
    }
    set_action(libc::SIGALRM, libc::SIG_DFL);
}

fn set_action(signal: i32, handler: libc::sighandler_t) -> libc::sigaction {
    // SAFETY: `sigaction` is a plain C struct for which all-zero bytes are a value.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { zeroed() };
    action.sa_sigaction = handler;
    // Not deferred, as a section of the report may fault once more.
    let flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    action.sa_flags = flags | libc::SA_RESTART;
    if handler == libc::SIG_DFL {
        action.sa_flags = 0;
    }
    // SAFETY: both actions are live locals; the handler has the form that the flags ask for, and
    // does only what a handler may until it has written all that does not depend on more.
    let code = unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };
    assert_eq!(code, 0, "sigaction fails only for a signal that cannot be caught");
    before
}

extern "C" fn on_fault(
    signal: libc::c_int,
    info: *const libc::siginfo_t,
    context: *const libc::c_void,
) {
    // SAFETY: the kernel has called this with its pointers, which live until this returns.
    let fault = unsafe { Fault::new(signal, info, context.cast()) };
    report_fault(&fault);
    let signal = super::LAST_SIGNAL.load(Ordering::SeqCst);
    if signal != fault.signal {
        die(signal);
    }
    // It comes when this handler has returned, so that a core shows the thread where it crashed.
    change_mask(libc::SIG_BLOCK, signal);
    set_action(signal, libc::SIG_DFL);
    send(thread_id(), signal);
    // SAFETY: the context is the kernel's, which nobody else refers to; its mask holds from the
    // return on.
    unsafe { libc::sigdelset(&raw mut (*fault.context.cast_mut()).uc_sigmask, signal) };
}

/// When the report is to be looked at.
static LIMIT_NS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Has the report looked at after `seconds`.
pub(super) fn limit_time(seconds: u64) {
    LIMIT_NS.store(monotonic_ns() + seconds * super::SECOND_NS, Ordering::SeqCst);
    // One more, so that the limit has passed when it comes.
    arm(seconds as libc::time_t, 1000);
}

fn arm(seconds: libc::time_t, microseconds: libc::suseconds_t) {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let value = libc::timeval { tv_sec: seconds, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: none, it_value: value };
    // SAFETY: the timer is a live local, and the old one is not asked for.
    unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const timer, 0) };
}

extern "C" fn on_alarm(_: libc::c_int, _: *const libc::siginfo_t, _: *const libc::c_void) {
    let reporter = REPORTER.load(Ordering::SeqCst);
    if reporter != thread_id() {
        if reporter != 0 {
            send(reporter, libc::SIGALRM);
        }
        return;
    }
    if monotonic_ns() < LIMIT_NS.load(Ordering::SeqCst) {
        // One section has ended as its time did: the next one has a limit of its own.
        return;
    }
    if !super::look_at_section() {
        die(super::LAST_SIGNAL.load(Ordering::SeqCst));
    }
}

/// Ends the process by what `signal` does where nobody handles it.
pub(super) fn die(signal: i32) -> ! {
    set_action(signal, libc::SIG_DFL);
    change_mask(libc::SIG_UNBLOCK, signal);
    send(thread_id(), signal);
    // SAFETY: the process ends. It is here only where a debugger has taken the signal.
    unsafe { libc::_exit(128 + signal) }
}

/// Returns the id of the calling thread.
pub(super) fn thread_id() -> i32 {
    // SAFETY: the system call has no arguments, and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// A thread's name, with the byte that ends it.
pub(super) const NAME_BYTES: usize = 16;

/// Returns the name of the calling thread.
pub(super) fn thread_name(buffer: &mut [u8; NAME_BYTES]) -> &str {
    // SAFETY: the kernel writes that many bytes at most, and the buffer is live and as long.
    unsafe { libc::prctl(libc::PR_GET_NAME, buffer.as_mut_ptr()) };
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    std::str::from_utf8(&buffer[..end]).unwrap_or("?")
}

/// Sends a signal to a thread of this process.
fn send(thread: i32, signal: i32) {
    // SAFETY: it touches no memory. The C library's own names would ask for more than it may here.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
}

fn change_mask(how: libc::c_int, signal: i32) {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set; then it is a live local that holds one signal more,
    // and a null old set is allowed.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut());
    }
}

pub(super) fn write_to_read_only_memory() -> ! {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping wherever the kernel likes touches no memory that is in use.
    let memory = unsafe { libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED, "a page of addresses is left");
    // SAFETY: the page is mapped and nobody else's. That it cannot be written is what this is for:
    // the write has no other effect than the signal.
    unsafe { memory.cast::<u8>().write_volatile(b'x') };
    unreachable!("the page is read-only")
}
