//! What a session does a moment later, unless that has become needless by then: a thread of the
//! session looks after each [`DELAY`], as long as there is something.
//!
//! Bells: requests that the server need not be woken for at once. It finds them when it is woken
//! for something else; what lies there for long the thread rings for. To wake a server takes its
//! client some 8 us where both share a processor, as the server runs then. Who takes one value
//! after the other would pay that for each deletion, which nobody waits for.
//!
//! And connections that hold values back (`held_posts.rs`), which send them then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sys::poll::Waker;

/// About how long a request lies there. Who sends them less often than this rings at once: nothing
/// would be gained.
pub const DELAY: Duration = Duration::from_millis(1);
/// Rounds in which nothing is to be done, after which the thread sleeps until something is.
const IDLE_ROUNDS_MAX: u32 = 8;

/// Something that may be left to be done later.
pub trait LateTask: Send + Sync {
    /// Does what is due; returns whether there was something, or still is. Only the thread of the
    /// session calls it.
    fn look(&self) -> bool;
}

/// The tasks of one session.
pub struct LateTasks {
    tasks: Mutex<Vec<Weak<dyn LateTask>>>,
    /// The thread looks at them after each [`DELAY`].
    is_watched: AtomicBool,
    waker: Waker,
}

/// One lane: its owner says that it is to be rung for, and the thread does it.
pub struct LateBell {
    is_due: AtomicBool,
    doorbell: Waker,
    tasks: Arc<LateTasks>,
}

impl LateTasks {
    /// Returns those of a new session: none. A write to `waker` wakes its thread.
    pub fn new(waker: Waker) -> Arc<LateTasks> {
        Arc::new(LateTasks { tasks: Mutex::default(), is_watched: AtomicBool::new(false), waker })
    }

    /// Adds one; it is forgotten once nobody else has it.
    pub fn add(&self, task: Weak<dyn LateTask>) {
        let mut tasks = self.tasks();
        tasks.retain(|task| task.strong_count() > 0);
        tasks.push(task);
    }

    /// Returns the bell of a lane whose server hears `doorbell`.
    pub fn bell(self: &Arc<LateTasks>, doorbell: Waker) -> Arc<LateBell> {
        let bell = LateBell { is_due: AtomicBool::new(false), doorbell, tasks: Arc::clone(self) };
        let bell = Arc::new(bell);
        let task: Weak<LateBell> = Arc::downgrade(&bell);
        self.add(task);
        bell
    }

    /// Has the thread look after a moment, as there is something.
    pub fn watch(&self) {
        // SYNC POINT: watched or seen what is there. Pairs with the store in `look`.
        if !self.is_watched.swap(true, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Does what is due, and tells the thread how long it may wait until the next call: for ever
    /// once `idle_rounds`, which this counts, are many.
    pub fn look(&self, idle_rounds: &mut u32) -> Option<Duration> {
        *idle_rounds = if self.look_once() { 0 } else { idle_rounds.saturating_add(1) };
        if *idle_rounds < IDLE_ROUNDS_MAX {
            return Some(DELAY);
        }
        // SYNC POINT: watched or seen what is there. Pairs with the swap in `watch`.
        self.is_watched.store(false, Ordering::SeqCst);
        if !self.look_once() {
            return None;
        }
        // It may not be done yet.
        self.is_watched.store(true, Ordering::SeqCst);
        *idle_rounds = 0;
        Some(DELAY)
    }

    /// Returns whether there was something, or still is.
    fn look_once(&self) -> bool {
        // Not under the lock: one may wait for the server.
        let tasks: Vec<_> = self.tasks().iter().filter_map(Weak::upgrade).collect();
        tasks.iter().filter(|task| task.look()).count() > 0
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<Weak<dyn LateTask>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LateBell {
    /// Has the server woken after a moment, unless [`LateBell::forget`] is called first.
    pub fn ring_later(&self) {
        self.is_due.store(true, Ordering::SeqCst);
        self.tasks.watch();
    }

    /// Says that the server has been woken.
    pub fn forget(&self) {
        self.is_due.store(false, Ordering::Relaxed);
    }
}

impl LateTask for LateBell {
    fn look(&self) -> bool {
        let is_due = self.is_due.swap(false, Ordering::SeqCst);
        if is_due {
            self.doorbell.wake();
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::AtomicU32;

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
        let tasks = LateTasks::new(waker);
        let bell = tasks.bell(doorbell);
        let mut idle_rounds = 0;
        bell.ring_later();
        assert!(is_rung(&thread) && !is_rung(&server));
        bell.ring_later();
        assert!(!is_rung(&thread), "it is about to look");
        assert_eq!(tasks.look(&mut idle_rounds), Some(DELAY));
        assert!(is_rung(&server));
        bell.ring_later();
        bell.forget();
        let waits: Vec<_> = (0..IDLE_ROUNDS_MAX).map(|_| tasks.look(&mut idle_rounds)).collect();
        assert!(!is_rung(&server), "it was rung for by its owner");
        assert_eq!(waits.iter().position(Option::is_none), Some(IDLE_ROUNDS_MAX as usize - 1));
        bell.ring_later();
        assert!(is_rung(&thread), "it sleeps until it is woken");
        drop(bell);
        assert_eq!(tasks.look(&mut 0), Some(DELAY));
        assert!(!is_rung(&server), "the lane is gone");
    }

    /// There is something in those looks at it.
    struct Task {
        looks: AtomicU32,
        busy: Range<u32>,
    }

    impl LateTask for Task {
        fn look(&self) -> bool {
            self.busy.contains(&self.looks.fetch_add(1, Ordering::SeqCst))
        }
    }

    #[test]
    fn thread_that_is_about_to_sleep_goes_on_for_what_it_sees_then() {
        let tasks = LateTasks::new(Waker::new().unwrap());
        // The last of the rounds in which nothing is to be done looks twice.
        let busy = IDLE_ROUNDS_MAX..IDLE_ROUNDS_MAX + 2;
        let task = Arc::new(Task { looks: AtomicU32::new(0), busy });
        let weak: Weak<Task> = Arc::downgrade(&task);
        tasks.add(weak);
        let mut idle_rounds = 0;
        let waits = (0..=2 * IDLE_ROUNDS_MAX).map(|_| tasks.look(&mut idle_rounds));
        let sleeps = waits.enumerate().filter(|(_, wait)| wait.is_none());
        let sleeps: Vec<_> = sleeps.map(|(round, _)| round as u32).collect();
        assert_eq!(sleeps, [2 * IDLE_ROUNDS_MAX]);
    }
}
