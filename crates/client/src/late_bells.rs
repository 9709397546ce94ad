//! Requests that the server need not be woken for at once. It finds them when it is woken for
//! something else; what lies there for long, a thread of the session rings for.
//!
//! To wake a server takes its client some 8 us where both share a processor, as the server runs
//! then. Who takes one value after the other would pay that for each deletion, which nobody waits
//! for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sys::poll::Waker;

/// About how long such a request lies there. Who sends them less often than this rings at once:
/// nothing would be gained.
pub const DELAY: Duration = Duration::from_millis(1);
/// Rounds in which nothing is to be rung, after which the thread sleeps until something is.
const IDLE_ROUNDS_MAX: u32 = 8;

/// The lanes of one session that may have such requests.
pub struct LateBells {
    lanes: Mutex<Vec<Weak<LateBell>>>,
    /// The thread looks at them after each [`DELAY`].
    is_watched: AtomicBool,
    waker: Waker,
}

/// One lane: its owner says that it is to be rung for, and the thread does it.
pub struct LateBell {
    is_due: AtomicBool,
    doorbell: Waker,
    all: Arc<LateBells>,
}

impl LateBells {
    /// Returns those of a session without lanes; a write to `waker` wakes its thread.
    pub fn new(waker: Waker) -> Arc<LateBells> {
        Arc::new(LateBells { lanes: Mutex::default(), is_watched: AtomicBool::new(false), waker })
    }

    /// Returns the bell of a lane whose server hears `doorbell`.
    pub fn bell(self: &Arc<LateBells>, doorbell: Waker) -> Arc<LateBell> {
        let bell = LateBell { is_due: AtomicBool::new(false), doorbell, all: Arc::clone(self) };
        let bell = Arc::new(bell);
        let mut lanes = self.lanes();
        lanes.retain(|lane| lane.strong_count() > 0);
        lanes.push(Arc::downgrade(&bell));
        bell
    }

    /// Rings all that are due, and tells the thread how long it may wait until the next call: for
    /// ever once `idle_rounds`, which this counts, are many.
    pub fn ring_due(&self, idle_rounds: &mut u32) -> Option<Duration> {
        *idle_rounds = if self.ring() { 0 } else { idle_rounds.saturating_add(1) };
        if *idle_rounds < IDLE_ROUNDS_MAX {
            return Some(DELAY);
        }
        // SYNC POINT: watched or seen what is due. Pairs with the swap in `ring_later`.
        self.is_watched.store(false, Ordering::SeqCst);
        self.ring();
        None
    }

    /// Rings all that are due; returns whether there was one.
    fn ring(&self) -> bool {
        let due = |lane: &Weak<LateBell>| {
            let bell = lane.upgrade().filter(|bell| bell.is_due.swap(false, Ordering::SeqCst));
            bell.inspect(|bell| bell.doorbell.wake()).is_some()
        };
        self.lanes().iter().filter(|lane| due(lane)).count() > 0
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Weak<LateBell>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LateBell {
    /// Has the server woken after a moment, unless [`LateBell::forget`] is called first.
    pub fn ring_later(&self) {
        self.is_due.store(true, Ordering::SeqCst);
        // SYNC POINT: watched or seen what is due. Pairs with the store in `ring_due`.
        if !self.all.is_watched.swap(true, Ordering::SeqCst) {
            self.all.waker.wake();
        }
    }

    /// Says that the server has been woken.
    pub fn forget(&self) {
        self.is_due.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use sys::poll::{Events, Interest, Poller};

    use super::*;

    /// Returns whether `poller` has been told of something.
    fn is_rung(poller: &Poller) -> bool {
        let mut events = Events::with_capacity(4);
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        !events.is_empty()
    }

    fn heard(waker: &Waker) -> Poller {
        let poller = Poller::new().unwrap();
        poller.add(waker, 0, Interest::Readable).unwrap();
        poller
    }

    #[test]
    fn what_is_due_is_rung_once_and_the_thread_is_woken_only_while_it_sleeps() {
        let (waker, doorbell) = (Waker::new().unwrap(), Waker::new().unwrap());
        let (thread, server) = (heard(&waker), heard(&doorbell));
        let bells = LateBells::new(waker);
        let bell = bells.bell(doorbell);
        let mut idle_rounds = 0;
        bell.ring_later();
        assert!(is_rung(&thread) && !is_rung(&server));
        bell.ring_later();
        assert!(!is_rung(&thread), "it is about to look");
        assert_eq!(bells.ring_due(&mut idle_rounds), Some(DELAY));
        assert!(is_rung(&server));
        bell.ring_later();
        bell.forget();
        let waits: Vec<_> =
            (0..IDLE_ROUNDS_MAX).map(|_| bells.ring_due(&mut idle_rounds)).collect();
        assert!(!is_rung(&server), "it was rung for by its owner");
        assert_eq!(waits.iter().position(Option::is_none), Some(IDLE_ROUNDS_MAX as usize - 1));
        bell.ring_later();
        assert!(is_rung(&thread), "it sleeps until it is woken");
        drop(bell);
        assert_eq!(bells.ring_due(&mut 0), Some(DELAY));
        assert!(!is_rung(&server), "the lane is gone");
    }
}
