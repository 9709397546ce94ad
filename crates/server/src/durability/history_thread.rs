//! The thread that works on the history of the log: it removes what is kept no longer, and answers
//! who reads the log. No worker waits for it, so that it may wait for the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Retention;
use super::feed::answering::Answering;
use crate::server_state::ServerState;

/// How often it is looked what has become too old.
const FORGET_INTERVAL: Duration = Duration::from_secs(10);

/// The thread's own state.
pub struct HistoryThread {
    shared: Arc<ServerState>,
    /// When it was looked last, by the steady clock.
    forgot_at: Duration,
}

impl HistoryThread {
    /// Returns the thread of `shared`.
    pub fn new(shared: Arc<ServerState>) -> HistoryThread {
        HistoryThread { shared, forgot_at: Duration::ZERO }
    }

    /// Runs until it is told to end.
    pub fn run(mut self) {
        let mut answering = Answering::new(Arc::clone(&self.shared));
        loop {
            let history = &self.shared.durability.history;
            if history.exits.load(Ordering::SeqCst) {
                return;
            }
            if sys::crash::has_begun() {
                sys::crash::wait_for_the_end();
            }
            let patience = answering.step().into_iter().chain(self.forget()).min();
            if patience != Some(Duration::ZERO) {
                self.shared.durability.history.wakeup.wait(patience);
            }
        }
    }

    /// Removes what has become too old or too much, where it is time; returns how long until it is
    /// again, for ever where nothing is kept.
    fn forget(&mut self) -> Option<Duration> {
        let settings = self.shared.settings();
        let durability = &self.shared.durability;
        let has_readers = !durability.groups().lsns.is_empty();
        let may_age = Retention::of(&settings).keeps_history() || has_readers;
        if !durability.is_on() || !may_age {
            return None;
        }
        let passed = sys::clock::monotonic().saturating_sub(self.forgot_at);
        if passed < FORGET_INTERVAL {
            return Some(FORGET_INTERVAL - passed);
        }
        let now = self.shared.runtime.clock().wall();
        if let Err(error) = durability.forget_history(&settings, now) {
            tracing::warn!(%error, "History of the append-only file cannot be removed");
        }
        self.forgot_at = sys::clock::monotonic();
        Some(FORGET_INTERVAL)
    }
}
