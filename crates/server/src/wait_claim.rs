//! Waiting for something else than the peer: a blocking command, or the end of a pause.
//!
//! The worker that serves a client alone begins its wait and goes on with it. Others may take the
//! right to end the wait, with one atomic step, and tell the worker; whoever takes it first, the
//! worker's clock included, decides how the wait ends. A worker that has taken it, and whose client
//! waits on nevertheless, gives it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// What its blocking command asks for.
    Blocked,
    /// The end of a pause, before its next request.
    Paused,
    /// What its command has asked of the server, which alone ends the wait.
    Server,
}

const NONE: u8 = 0;
const PAUSED: u8 = 1;
const BLOCKED: u8 = 2;
const SERVER: u8 = 16;
/// Added to `BLOCKED` where the wait ends by itself after some time.
const TIMED: u8 = 4;
/// Added to these while the right to end the wait is taken: the client no longer waits for anybody
/// but its worker, which is told how to go on.
const CLAIMED: u8 = 8;
/// Added, also before the worker has noted the wait, once the wait has been served: the client no
/// longer waits for anybody but its worker, which is to write the reply.
const SERVED: u8 = 32;

/// What one client waits for, as all threads see it.
#[derive(Debug)]
pub struct WaitMark {
    state: AtomicU8,
    counts: Arc<WaitCounts>,
}

impl WaitMark {
    /// Returns the mark of a client that waits for nothing, and whose waits are counted in
    /// `counts`.
    pub fn new(counts: Arc<WaitCounts>) -> WaitMark {
        WaitMark { state: AtomicU8::new(NONE), counts }
    }

    /// Notes that the wait begins; `is_timed` where it ends by itself. For the client's worker.
    pub fn begin(&self, wait_reason: WaitReason, is_timed: bool) {
        let state = match wait_reason {
            WaitReason::Paused => PAUSED,
            WaitReason::Server => SERVER,
            WaitReason::Blocked if is_timed => BLOCKED | TIMED,
            WaitReason::Blocked => BLOCKED,
        };
        self.change(|before| Some(state | before & SERVED));
    }

    /// Takes the right to end the wait in a blocking command; returns false where there is none, or
    /// another has taken it. For the client's worker.
    pub fn claim(&self) -> bool {
        self.change(|state| (state & (BLOCKED | CLAIMED) == BLOCKED).then_some(state | CLAIMED))
    }

    /// As [`WaitMark::claim`], and returns false where the wait has been served. For others.
    pub fn claim_unserved(&self) -> bool {
        let is_open = |state| state & (BLOCKED | CLAIMED | SERVED) == BLOCKED;
        self.change(|state| is_open(state).then_some(state | CLAIMED))
    }

    /// Notes that the wait has been served: all but the worker see that it is over.
    pub fn serve(&self) {
        self.change(|state| Some(state | SERVED));
    }

    /// Gives the right to end the wait back, unless the wait has ended otherwise. For the client's
    /// worker, which has taken it.
    pub fn unclaim(&self) {
        self.change(|state| (state & CLAIMED != 0).then_some(state & !CLAIMED));
    }

    /// Returns whether the right to end the wait is taken.
    pub fn is_claimed(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CLAIMED != 0
    }

    /// Notes that there is no wait any more.
    pub fn end(&self) {
        let before = self.state.swap(NONE, Ordering::Relaxed);
        self.counts.change(before, NONE);
    }

    /// Returns whether the client waits.
    pub fn is_on(&self) -> bool {
        is_counted(self.state.load(Ordering::Relaxed))
    }

    /// Replaces the state by what `after` makes of it; returns false where that is nothing.
    fn change(&self, after: impl Fn(u8) -> Option<u8>) -> bool {
        let Ok(before) = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, &after)
        else {
            return false;
        };
        self.counts.change(before, after(before).expect("the state has changed by it"));
        true
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
            (&self.timed, is_timed(before), is_timed(after)),
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
    state & (PAUSED | BLOCKED) != 0 && state & (CLAIMED | SERVED) == 0
}

fn is_timed(state: u8) -> bool {
    is_counted(state) && state & TIMED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mark of one client, and the counts of it alone.
    fn mark() -> (WaitMark, Arc<WaitCounts>) {
        let counts = Arc::default();
        (WaitMark::new(Arc::clone(&counts)), counts)
    }

    #[test]
    fn only_one_ends_a_wait_and_nobody_that_of_a_pause() {
        let (mark, counts) = mark();
        assert!(!mark.claim());
        mark.begin(WaitReason::Blocked, true);
        assert_eq!((counts.all(), counts.timed(), mark.is_on()), (1, 1, true));
        assert!(mark.claim() && !mark.claim());
        assert_eq!((counts.all(), counts.timed(), mark.is_on()), (0, 0, false));
        mark.end();
        mark.begin(WaitReason::Paused, false);
        assert!(!mark.claim());
        assert_eq!((counts.all(), counts.timed()), (1, 0));
        mark.end();
        mark.end();
        assert_eq!(counts.all(), 0);
    }

    #[test]
    fn who_was_served_waits_for_its_worker_alone() {
        for is_noted_first in [true, false] {
            let (mark, counts) = mark();
            if is_noted_first {
                mark.begin(WaitReason::Blocked, true);
            }
            mark.serve();
            if !is_noted_first {
                mark.begin(WaitReason::Blocked, true);
            }
            assert_eq!((counts.all(), counts.timed(), mark.is_on()), (0, 0, false));
            assert!(!mark.claim_unserved() && mark.claim() && !mark.claim());
            mark.end();
            mark.begin(WaitReason::Blocked, false);
            assert!(mark.is_on() && mark.claim_unserved() && counts.all() == 0);
        }
    }

    /// Each step is one change of one word, so that the orders of the steps are all that threads
    /// can make of them.
    #[test]
    fn who_waits_on_can_be_claimed_anew_in_whatever_order_others_come() {
        // The worker has claimed the wait, and gives it back; another claims it, and another ends
        // the client, before, between or behind.
        for order in [["end", "give", "claim"], ["give", "end", "claim"], ["give", "claim", "end"]]
        {
            let (mark, counts) = mark();
            mark.begin(WaitReason::Blocked, true);
            assert!(mark.claim() && !mark.claim());
            for (index, step) in order.into_iter().enumerate() {
                let has_ended = order[..index].contains(&"end");
                match step {
                    "end" => mark.end(),
                    "give" => mark.unclaim(),
                    _ => assert_eq!(mark.claim(), !has_ended, "{order:?}"),
                }
                let waits = usize::from(step == "give" && !has_ended);
                assert_eq!((counts.all(), counts.timed()), (waits, waits), "{step} of {order:?}");
                assert_eq!(mark.is_claimed(), step == "claim" && !has_ended, "{order:?}");
            }
        }
    }
}
