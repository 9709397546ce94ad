//! Waiting for a word that another process changes, and waking the waiters.
//!
//! The word has 64 bits, like every word of shared memory here; the kernel compares its low half.

use std::io;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Somebody woke it, the word had another value, or a signal came: look again.
    Woken,
    /// The time has passed.
    TimedOut,
}

const _: () = assert!(cfg!(target_endian = "little"), "the low half of a word comes first");

/// Sleeps while the low half of `word` is `expected`, until woken, for at most `timeout`.
///
/// # Errors
/// None that is known for a word that is mapped.
pub fn wait(word: &AtomicU64, expected: u32, timeout: Duration) -> io::Result<Waited> {
    let limit = libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: the kernel reads four aligned bytes inside the word, atomically, and the time, both
    // of which live for the call; the last two arguments are not used by this operation.
    let code = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr().cast::<u32>(),
            libc::FUTEX_WAIT,
            expected,
            &raw const limit,
            std::ptr::null::<u32>(),
            0_u32,
        )
    };
    if code == 0 {
        return Ok(Waited::Woken);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(Waited::Woken),
        Some(libc::ETIMEDOUT) => Ok(Waited::TimedOut),
        _ => Err(error),
    }
}

/// Wakes one thread of any process that waits for `word`. One that waits in another way than
/// [`wait`] does may be in the way of that: the word is its process's matter too.
pub fn wake(word: &AtomicU64) {
    // SAFETY: the kernel takes the address as a name and reads nothing there; the arguments after
    // the count are not used by this operation. It fails only by such a waiter, who wakes nobody.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr().cast::<u32>(),
            libc::FUTEX_WAKE,
            1_u32,
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            0_u32,
        )
    };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn sleeper_is_woken_by_another_thread_and_no_value_is_missed() {
        let word = Arc::new(AtomicU64::new(1 | 7 << 32));
        let waker = std::thread::spawn({
            let word = word.clone();
            move || {
                word.store(0, Ordering::SeqCst);
                wake(&word);
            }
        });
        while word.load(Ordering::SeqCst) != 0 {
            wait(&word, 1, Duration::from_secs(60)).unwrap();
        }
        waker.join().unwrap();
        assert_eq!(wait(&word, 1, Duration::from_secs(60)).unwrap(), Waited::Woken);
        assert_eq!(wait(&word, 0, Duration::from_millis(1)).unwrap(), Waited::TimedOut);
    }

    /// Another process may wait for the word in a way that no wake ends, and the kernel says so.
    #[test]
    fn who_waits_in_another_way_does_not_harm_the_waker() {
        const WAITERS: u64 = 1 << 31;
        let lock = |word: &AtomicU64, operation: libc::c_int| {
            let no_limit = std::ptr::null::<libc::timespec>();
            // SAFETY: the word lives for the call, in which the kernel changes its low half
            // atomically; there is no limit to read.
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 0, no_limit) }
        };
        let word = AtomicU64::new(0);
        assert_eq!(lock(&word, libc::FUTEX_LOCK_PI), 0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let locked = lock(&word, libc::FUTEX_LOCK_PI);
                (locked, lock(&word, libc::FUTEX_UNLOCK_PI))
            });
            while word.load(Ordering::SeqCst) & WAITERS == 0 {
                std::thread::yield_now();
            }
            let woken = std::panic::catch_unwind(|| wake(&word));
            assert_eq!(lock(&word, libc::FUTEX_UNLOCK_PI), 0);
            assert_eq!(waiter.join().unwrap(), (0, 0));
            assert!(woken.is_ok());
        });
    }
}
