//! Whether this process is a child that was forked without a new program: it has its parent's
//! memory, descriptors and mappings, and shares what both map.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many forks lie between this process and the first that asked.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The process that something was made in: one load and one comparison tell whether this is
/// another. Children made by `clone` or `vfork` alone are not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u64);

impl Generation {
    /// Returns that of this process.
    pub fn current() -> Generation {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: the handler is a function that lives as long as the program, and does what a
            // child may do before it executes anything: it changes one atomic.
            let failed = unsafe { libc::pthread_atfork(None, None, Some(note_child)) };
            assert_eq!(failed, 0, "there is memory for one handler");
        });
        Generation(GENERATION.load(Ordering::Relaxed))
    }

    /// Returns whether this process is the one that it was taken in, and not a child.
    #[inline(always)]
    pub fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }
}

unsafe extern "C" fn note_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Runs `child` in a forked child, which then ends without a word to anybody, and returns whether
/// it returned true. For tests of what a child may do with what it inherits: no thread of the
/// parent may hold a lock that `child` takes.
///
/// # Errors
/// When the process cannot be forked.
pub fn run_in_child(child: impl FnOnce() -> bool) -> io::Result<bool> {
    // SAFETY: the caller sees to it that the child waits for no lock that has no owner there.
    let process_id = unsafe { libc::fork() };
    match process_id {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            // SAFETY: it ends the process at once, and runs nothing of the parent's.
            unsafe { libc::_exit(i32::from(!matches!(outcome, Ok(true)))) }
        }
        process_id => {
            let mut status = 0;
            loop {
                // SAFETY: the child is this process's own, and the status outlives the call.
                let waited = unsafe { libc::waitpid(process_id, &raw mut status, 0) };
                if waited == process_id {
                    return Ok(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
                }
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_knows_that_it_is_one() {
        let generation = Generation::current();
        assert!(generation.is_current());
        let child = || !generation.is_current() && Generation::current() != generation;
        assert!(run_in_child(child).unwrap());
        assert!(generation.is_current());
        assert!(!run_in_child(|| panic!("as a child may")).unwrap());
    }
}
