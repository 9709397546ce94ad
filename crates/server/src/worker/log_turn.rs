//! Who writes the log for the replies that a worker holds: the worker itself where all of its
//! clients wait for that, else the log thread.
//!
//! To wake the log thread, and to be woken by it, takes about as long as a sync on a fast disk. A
//! worker that has nothing else to do spares both. While it waits for the disk it serves nobody:
//! hence a single client that may ask for something leaves the log to its thread.

use std::time::Duration;

use runtime::SyncPolicy;

use super::Worker;

/// A sync that takes longer is one of a disk that nobody else is to wait for, such as who connects
/// meanwhile.
const SLOW_SYNC: Duration = Duration::from_millis(10);
/// How long a worker leaves the log to its thread after such a sync.
const PAUSE: Duration = Duration::from_secs(10);

/// What a worker knows of its turns to write the log.
#[derive(Debug, Default)]
pub(super) struct LogTurn {
    /// Replies are held for which nobody has been asked to write the log.
    is_due: bool,
    /// Until when the log thread writes, by the steady clock.
    pause_end: Duration,
}

impl LogTurn {
    /// Returns whether replies are held for which the log is still to be written.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Notes that replies are held.
    pub(super) fn note_held(&mut self) {
        self.is_due = true;
    }

    /// Returns whether the worker writes the log, where `held` of its `clients` wait for that.
    fn is_own(&self, held: usize, clients: usize, now: Duration) -> bool {
        held == clients && now >= self.pause_end
    }

    fn note_sync(&mut self, began: Duration, ended: Duration) {
        if ended.saturating_sub(began) > SLOW_SYNC {
            self.pause_end = ended + PAUSE;
        }
    }
}

impl Worker<'_> {
    /// Sees to the log for the replies that are held: writes it, or has its thread do that.
    #[inline(never)]
    pub(super) fn take_log_turn(&mut self) {
        let now = sys::clock::monotonic();
        let is_always = self.settings.persistence.sync_policy == SyncPolicy::Always;
        let is_own = self.log_turn.is_own(self.held.len(), self.tokens.len(), now);
        if !is_always || !is_own || sys::crash::has_begun() {
            return self.leave_log_turn();
        }
        // The gate moves on here: nobody has to tell this worker of it.
        let mailbox = self.mailbox;
        if !self.shared.durability.write_here(self.shared, || mailbox.hold_replies(false)) {
            return self.leave_log_turn();
        }
        self.log_turn.note_sync(now, sys::clock::monotonic());
        self.log_turn.is_due = false;
        self.send_released();
        if self.log_turn.is_due {
            // The disk is full, or has no end of the log any more.
            self.leave_log_turn();
        }
    }

    /// Has the log thread write the log for the replies that are held.
    pub(super) fn leave_log_turn(&mut self) {
        self.log_turn.is_due = false;
        self.shared.durability.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn worker_leaves_the_log_to_its_thread_while_somebody_need_not_wait_for_it() {
        let turn = LogTurn::default();
        assert!(turn.is_own(1, 1, NOW) && turn.is_own(3, 3, NOW));
        assert!(!turn.is_own(2, 3, NOW));
    }

    #[test]
    fn worker_leaves_the_log_to_its_thread_after_a_slow_sync() {
        let mut turn = LogTurn::default();
        turn.note_sync(NOW, NOW + SLOW_SYNC);
        assert!(turn.is_own(1, 1, NOW + SLOW_SYNC));
        let ended = NOW + 2 * SLOW_SYNC;
        turn.note_sync(NOW, ended);
        assert!(!turn.is_own(1, 1, ended));
        assert!(turn.is_own(1, 1, ended + PAUSE));
    }
}
