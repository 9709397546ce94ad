//! Waiting for something else than the peer: a blocking command, or the end of a pause.
//!
//! The worker that serves a client alone begins its wait and goes on with it. Others may take the
//! right to end the wait, with one atomic step, and tell the worker; whoever takes it first, the
//! worker's clock included, decides how the wait ends.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// What its blocking command asks for.
    Blocked,
    /// The end of a pause, before its next request.
    Paused,
}

const NONE: u8 = 0;
const PAUSED: u8 = 1;
const BLOCKED: u8 = 2;
/// Added to `BLOCKED` where the wait ends by itself after some time.
const TIMED: u8 = 4;
/// It no longer waits for anybody but its worker, which is told how to go on.
const CLAIMED: u8 = 8;

/// What one client waits for, as all threads see it.
#[derive(Debug, Default)]
pub struct WaitMark(AtomicU8);

impl WaitMark {
    /// Notes that the wait begins; `is_timed` where it ends by itself. For the client's worker.
    pub fn begin(&self, wait_reason: WaitReason, is_timed: bool, counts: &WaitCounts) {
        let state = match wait_reason {
            WaitReason::Paused => PAUSED,
            WaitReason::Blocked if is_timed => BLOCKED | TIMED,
            WaitReason::Blocked => BLOCKED,
        };
        let before = self.0.swap(state, Ordering::Relaxed);
        counts.change(before, state);
    }

    /// Takes the right to end the wait in a blocking command; returns false where there is none, or
    /// another has taken it.
    pub fn claim(&self, counts: &WaitCounts) -> bool {
        let claimed = |state: u8| (state & BLOCKED != 0).then_some(CLAIMED);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claimed) {
            Ok(before) => {
                counts.change(before, CLAIMED);
                true
            }
            Err(_) => false,
        }
    }

    /// Returns whether the right to end the wait is taken.
    pub fn is_claimed(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CLAIMED
    }

    /// Notes that there is no wait any more.
    pub fn end(&self, counts: &WaitCounts) {
        let before = self.0.swap(NONE, Ordering::Relaxed);
        counts.change(before, NONE);
    }

    /// Returns whether the client waits.
    pub fn is_on(&self) -> bool {
        is_counted(self.0.load(Ordering::Relaxed))
    }
}

/// How many clients wait.
#[derive(Debug, Default)]
pub struct WaitCounts {
    all: AtomicUsize,
    timed: AtomicUsize,
}

impl WaitCounts {
    /// Returns how many wait.
    pub fn all(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Returns how many wait for some time at most.
    pub fn timed(&self) -> usize {
        self.timed.load(Ordering::Relaxed)
    }

    fn change(&self, before: u8, after: u8) {
        let numbers = [
            (&self.all, is_counted(before), is_counted(after)),
            (&self.timed, before & TIMED != 0, after & TIMED != 0),
        ];
        for (number, was, is) in numbers {
            match (was, is) {
                (false, true) => number.fetch_add(1, Ordering::Relaxed),
                (true, false) => number.fetch_sub(1, Ordering::Relaxed),
                _ => 0,
            };
        }
    }
}

fn is_counted(state: u8) -> bool {
    state & (PAUSED | BLOCKED) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_ends_a_wait_and_nobody_that_of_a_pause() {
        let (mark, counts) = (WaitMark::default(), WaitCounts::default());
        assert!(!mark.claim(&counts));
        mark.begin(WaitReason::Blocked, true, &counts);
        assert_eq!((counts.all(), counts.timed(), mark.is_on()), (1, 1, true));
        assert!(mark.claim(&counts) && !mark.claim(&counts));
        assert_eq!((counts.all(), counts.timed(), mark.is_on()), (0, 0, false));
        mark.end(&counts);
        mark.begin(WaitReason::Paused, false, &counts);
        assert!(!mark.claim(&counts));
        assert_eq!((counts.all(), counts.timed()), (1, 0));
        mark.end(&counts);
        mark.end(&counts);
        assert_eq!(counts.all(), 0);
    }
}
