//! This process and others: limits, resource use, and a handle that reports when a process ends.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit};

use crate::socket::{Peer, Stream};

/// Returns how many descriptors this process may have open.
pub fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the limit of open descriptors to `wanted` or as near as the system allows, and returns
/// the limit that holds now. A higher one is left alone.
pub fn raise_descriptor_limit(wanted: u64) -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return current;
    }
    // Raising the hard limit needs a privilege; without it the hard limit is what can be had.
    let hard = limit.maximum.unwrap_or(u64::MAX);
    for target in [wanted, hard.min(wanted)] {
        let maximum = Some(hard.max(target));
        let raised = Rlimit { current: Some(target), maximum };
        if rustix::process::setrlimit(Resource::Nofile, raised).is_ok() {
            return target;
        }
    }
    current
}

/// Sets the limit of open descriptors, below the hard limit. For tests of exhaustion.
///
/// # Errors
/// When `count` is above the hard limit.
pub fn set_descriptor_limit(count: u64) -> io::Result<()> {
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(count), maximum };
    Ok(rustix::process::setrlimit(Resource::Nofile, limit)?)
}

/// Returns the operating system's name, release and machine, as in `Linux 6.1.0 x86_64`.
pub fn system_name() -> String {
    let name = rustix::system::uname();
    let parts = [name.sysname(), name.release(), name.machine()];
    parts.map(|part| part.to_string_lossy().into_owned()).join(" ")
}

/// Returns the number of the processor that the calling thread is on.
#[inline]
pub fn processor() -> usize {
    rustix::thread::sched_getcpu()
}

/// Has the calling thread go on on another processor than the one that it is on; returns false
/// where it may use no other. Takes some tens of microseconds.
pub fn leave_processor() -> bool {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return false };
    let mut others = allowed;
    others.unset(processor());
    if others.count() == 0 || rustix::thread::sched_setaffinity(None, &others).is_err() {
        return false;
    }
    // It is there now, and may go wherever the system wants it from then on.
    rustix::thread::sched_setaffinity(None, &allowed).is_ok()
}

/// Leaves the terminal and the session of who started this process.
///
/// # Errors
/// When it leads a process group.
pub fn new_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Turns standard input, output and error to where nothing is.
///
/// # Errors
/// When that cannot be opened.
pub fn silence() -> io::Result<()> {
    let nowhere = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    Ok(())
}

/// Stops this process until it is told to go on, which tells upstart that it is ready.
///
/// # Errors
/// When the kernel refuses.
pub fn stop() -> io::Result<()> {
    let this = rustix::process::getpid();
    Ok(rustix::process::kill_process(this, rustix::process::Signal::STOP)?)
}

/// Names the calling thread, as `ps` and `top` show it; of the main thread it is the process's
/// name. The kernel keeps 15 bytes.
pub fn set_thread_name(name: &std::ffi::CStr) {
    // It fails for no name that is a string.
    let _ = rustix::thread::set_name(name);
}

/// Returns the effective user id of this process.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whose resource use to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageOf {
    /// All threads of this process.
    Process,
    /// The calling thread.
    Thread,
    /// Children of this process that have ended and were waited for.
    Children,
}

/// Processor time and memory as the kernel accounts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Processor time in the program.
    pub user: Duration,
    /// Processor time in the kernel on the program's behalf.
    pub system: Duration,
    /// The largest resident size so far, in bytes.
    pub resident_bytes_max: u64,
}

/// Returns the resource use of `whom`.
pub fn resource_usage(whom: UsageOf) -> ResourceUsage {
    let whom = match whom {
        UsageOf::Process => libc::RUSAGE_SELF,
        UsageOf::Thread => libc::RUSAGE_THREAD,
        UsageOf::Children => libc::RUSAGE_CHILDREN,
    };
    // SAFETY: `rusage` is a plain C struct for which all-zero bytes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer refers to a live local of the right type.
    let code = unsafe { libc::getrusage(whom, &raw mut usage) };
    assert_eq!(code, 0, "getrusage fails only for an unknown `whom`");
    ResourceUsage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        resident_bytes_max: usage.ru_maxrss as u64 * 1024,
    }
}

/// Has the allocator give back what lies free in its heaps, where it can.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has the allocator give blocks of 512 KiB and more back to the system as soon as they are freed,
/// where it can. Of its own accord it takes the size of the largest
/// block that was freed, up to 32 MiB, for the usual one, and keeps what is smaller: memory that
/// nobody uses, on top of any limit.
pub fn give_large_blocks_back() {
    #[cfg(target_env = "gnu")]
    {
        const MAPPED_BYTES_MIN: libc::c_int = 512 * 1024;
        /// What lies free at the end of a heap goes back from here on.
        const FREE_BYTES_MAX: libc::c_int = 2 * MAPPED_BYTES_MIN;
        for (parameter, value) in
            [(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN), (libc::M_TRIM_THRESHOLD, FREE_BYTES_MAX)]
        {
            // SAFETY: any thread may call it at any time; what is out of range is refused.
            let accepted = unsafe { libc::mallopt(parameter, value) };
            assert_eq!(accepted, 1, "the allocator allows the value");
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
}

/// A handle to a process: readable once the process has ended, whoever holds copies of its
/// sockets, and never confused with a later process of the same id.
#[derive(Debug)]
pub struct ProcessHandle {
    descriptor: OwnedFd,
}

impl ProcessHandle {
    /// Opens the process `process_id`.
    ///
    /// # Errors
    /// When no such process exists or no descriptors are left.
    pub fn open(process_id: i32) -> io::Result<ProcessHandle> {
        let pid = Pid::from_raw(process_id).ok_or(io::ErrorKind::NotFound)?;
        Ok(ProcessHandle { descriptor: rustix::process::pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Opens the process that connected the unix socket `stream`, also where it is in a process
    /// namespace that this one cannot see.
    ///
    /// # Errors
    /// When the process has ended; or the kernel (before 6.5) knows it only by an id, and that is
    /// not visible here or one of another user now.
    pub fn of_peer(stream: &Stream) -> io::Result<ProcessHandle> {
        match ProcessHandle::by_socket(stream) {
            Some(handle) => Ok(handle),
            None => ProcessHandle::by_credentials(stream.peer()?),
        }
    }

    /// Returns the process behind `stream` where the kernel hands it out.
    fn by_socket(stream: &Stream) -> Option<ProcessHandle> {
        let mut raw: libc::c_int = -1;
        let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the descriptor is open, and both pointers refer to live locals, the second
        // holding the size of the first.
        let code = unsafe {
            libc::getsockopt(
                stream.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERPIDFD,
                (&raw mut raw).cast(),
                &raw mut bytes,
            )
        };
        if code != 0 || raw < 0 {
            return None;
        }
        // SAFETY: the kernel just made this descriptor for us, and nothing else owns it.
        Some(ProcessHandle { descriptor: unsafe { OwnedFd::from_raw_fd(raw) } })
    }

    /// Opens the process of `peer`, which connected some time ago: since then its id may have
    /// become that of another process. One of the same user is not told from it.
    fn by_credentials(peer: Peer) -> io::Result<ProcessHandle> {
        let handle = ProcessHandle::open(peer.process_id)?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", peer.process_id))?;
        // Looked at last: while it lives, what was read is its own.
        if effective_user_id(&status) != Some(peer.user_id) || handle.has_ended()? {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(handle)
    }

    fn has_ended(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(self, PollFlags::IN)];
        Ok(rustix::event::poll(&mut polled, Some(&Timespec::default()))? > 0)
    }
}

/// Returns the user id that `status`, of /proc/<id>/status, says to be in effect: the second of
/// four (proc_pid_status(5)).
fn effective_user_id(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_whitespace().nth(1)?.parse().ok()
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Events, Interest, Poller};

    #[test]
    fn thread_leaves_its_processor_and_may_come_back() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        // The system may put it back at once, but hardly each time.
        let has_left = || {
            let before = processor();
            assert_eq!(leave_processor(), allowed.count() > 1);
            assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), allowed);
            processor() != before
        };
        assert!(allowed.count() == 1 || (0..1000).any(|_| has_left()));
    }

    #[test]
    fn process_handle_is_readable_once_the_process_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let handle = ProcessHandle::open(child.id() as i32).unwrap();
        let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(1));
        poller.add(&handle, 1, Interest::Readable).unwrap();
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
        child.kill().unwrap();
        poller.wait(&mut events, Some(Duration::from_secs(10))).unwrap();
        assert!(events.at(0).readable);
        child.wait().unwrap();
        assert!(ProcessHandle::open(0).is_err());
        let (stream, _other) = crate::socket::pair().unwrap();
        assert!(ProcessHandle::of_peer(&stream).is_ok());
    }

    #[test]
    fn process_known_by_its_id_alone_has_to_live_and_be_of_the_same_user() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (stream, _other) = crate::socket::pair().unwrap();
        let peer = Peer { process_id: child.id() as i32, ..stream.peer().unwrap() };
        let handle = ProcessHandle::by_credentials(peer).unwrap();
        assert!(!handle.has_ended().unwrap());
        let of_another = Peer { user_id: peer.user_id + 1, ..peer };
        assert!(ProcessHandle::by_credentials(of_another).is_err());
        child.kill().unwrap();
        let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(1));
        poller.add(&handle, 1, Interest::Readable).unwrap();
        poller.wait(&mut events, Some(Duration::from_secs(10))).unwrap();
        assert!(ProcessHandle::by_credentials(peer).is_err(), "it has ended, though it is listed");
        child.wait().unwrap();
        assert!(ProcessHandle::by_credentials(peer).is_err());
        assert_eq!(effective_user_id("Name:\tx\nUid:\t1\t2\t3\t4\n"), Some(2));
        assert_eq!(effective_user_id("Name:\tx\n"), None);
    }

    #[test]
    fn resource_use_is_accounted() {
        let usage = resource_usage(UsageOf::Process);
        assert!(usage.resident_bytes_max > 0);
        assert!(resource_usage(UsageOf::Thread).user <= usage.user + Duration::from_secs(1));
        assert!(raise_descriptor_limit(64) >= 64);
    }
}
