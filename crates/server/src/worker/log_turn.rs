//! Who writes the log for the replies that a worker holds: the worker itself where all of its
//! clients wait for that, else the log thread.
//!
//! To wake the log thread, and to be woken by it, takes about as long as a sync on a fast disk. A
//! worker that has nothing else to do spares both. While it waits for the disk it serves nobody, so
//! it does so only where nobody has come lately who need not wait for the log.

use std::io;
use std::time::Duration;

use base::spin_policy::SpinPolicy;
use runtime::SyncPolicy;
use sys::poll::Events;

use super::Worker;

/// Rounds in which more clients may join those whose replies are held, before the log is written
/// for all of them.
const ROUNDS_MAX: u32 = 64;
/// How long the worker polls for the next of them: a client that has just been answered asks again
/// within some microseconds, and a sync that does not serve it makes it wait for two.
const NEXT_LIMIT: Duration = Duration::from_micros(30);
/// And for all of them together, where a sync takes longer: else no longer than that.
const POLLED_LIMIT: Duration = Duration::from_millis(1);
/// A sync that takes longer is one of a disk that nobody else is to wait for.
const SLOW_SYNC: Duration = Duration::from_millis(10);
/// How long a worker leaves the log to its thread after such a sync, and after it has sent a reply
/// that was not held.
const PAUSE: Duration = Duration::from_millis(100);

/// What a worker knows of its turns to write the log.
#[derive(Debug, Default)]
pub(super) struct LogTurn {
    /// Replies are held for which nobody has been asked to write the log.
    is_due: bool,
    /// Rounds since then.
    rounds: u32,
    /// Connections whose replies were held at the last of them.
    held_before: usize,
    /// For how long the worker has polled for more in this turn.
    polled: Duration,
    /// How long the last sync took.
    last_sync: Duration,
    /// Whether it pays to poll for more.
    spin_policy: SpinPolicy,
    /// The worker polls for more in this turn.
    polls: bool,
    /// Polls have found more in this turn.
    has_found: bool,
    /// Sends of replies that were held.
    released_sends: u64,
    /// Sends of others, when it was looked last.
    other_sends: u64,
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

    /// Notes that replies that were held have left by so many sends.
    pub(super) fn note_released(&mut self, sends: u64) {
        self.released_sends = self.released_sends.wrapping_add(sends);
    }

    /// Returns whether all who were served lately wait for the log; the worker has sent `sends`
    /// times in all.
    fn is_own(&mut self, sends: u64, now: Duration) -> bool {
        let other_sends = sends.wrapping_sub(self.released_sends);
        if other_sends != self.other_sends {
            self.other_sends = other_sends;
            self.pause_end = self.pause_end.max(now + PAUSE);
        }
        now >= self.pause_end
    }

    /// Returns whether others may come who wait for the same sync, where `held` wait and `clients`
    /// are there: as long as each round brings one.
    fn gathers(&mut self, held: usize, clients: usize) -> bool {
        if self.rounds == 0 {
            self.polls = held < clients && self.spin_policy.is_due();
        }
        let has_grown = held > std::mem::replace(&mut self.held_before, held);
        self.rounds += 1;
        has_grown && held < clients && self.rounds < ROUNDS_MAX
    }

    /// Returns for how long the worker polls for the next of them.
    fn poll_limit(&self) -> Duration {
        let left = self.last_sync.min(POLLED_LIMIT).saturating_sub(self.polled);
        if self.polls { left.min(NEXT_LIMIT) } else { Duration::ZERO }
    }

    fn note_sync(&mut self, began: Duration, ended: Duration) {
        self.last_sync = ended.saturating_sub(began);
        if self.last_sync > SLOW_SYNC {
            self.pause_end = ended + PAUSE;
        }
    }

    fn end(&mut self) {
        if self.polls {
            self.spin_policy.learn(self.has_found);
        }
        (self.is_due, self.rounds, self.held_before) = (false, 0, 0);
        (self.polls, self.has_found, self.polled) = (false, false, Duration::ZERO);
    }
}

impl Worker<'_> {
    /// Sees to the log for the replies that are held: takes who else is ready, then writes it or
    /// has its thread do that. Returns whether `events` tell of something to do before.
    #[inline(never)]
    pub(super) fn take_log_turn(&mut self, events: &mut Events) -> io::Result<bool> {
        let now = sys::clock::monotonic();
        let is_always = self.settings.persistence.sync_policy == SyncPolicy::Always;
        if !is_always || !self.log_turn.is_own(self.counters.writes.value(), now) {
            self.leave_log_turn();
            return Ok(false);
        }
        let gathers = self.log_turn.gathers(self.held.len(), self.tokens.len());
        if gathers && self.finds_more(events)? {
            return Ok(true);
        }
        let begun = sys::clock::monotonic();
        // The gate moves on here: nobody has to tell this worker of it.
        let mailbox = self.mailbox;
        if !self.shared.durability.write_here(self.shared, || mailbox.hold_replies(false)) {
            self.leave_log_turn();
            return Ok(false);
        }
        self.log_turn.note_sync(begun, sys::clock::monotonic());
        self.log_turn.end();
        self.send_released();
        if self.log_turn.is_due() {
            // The disk is full, or has no end of the log any more.
            self.leave_log_turn();
        }
        Ok(false)
    }

    /// Returns whether there is something to do for others; polls for that where it pays.
    fn finds_more(&mut self, events: &mut Events) -> io::Result<bool> {
        self.poller.wait(events, Some(Duration::ZERO))?;
        if !events.is_empty() || !self.is_idle() {
            return Ok(true);
        }
        let limit = self.log_turn.poll_limit();
        let begun = sys::clock::monotonic();
        let mut polled = Duration::ZERO;
        while events.is_empty() && polled < limit {
            // The next client may wait for this processor.
            std::thread::yield_now();
            self.poller.wait(events, Some(Duration::ZERO))?;
            polled = sys::clock::monotonic().saturating_sub(begun);
        }
        self.log_turn.polled += polled;
        self.log_turn.has_found |= !events.is_empty();
        Ok(!events.is_empty())
    }

    /// Has the log thread write the log for the replies that are held.
    pub(super) fn leave_log_turn(&mut self) {
        self.log_turn.end();
        self.shared.durability.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn worker_leaves_the_log_to_its_thread_while_somebody_need_not_wait_for_it() {
        let mut turn = LogTurn::default();
        assert!(turn.is_own(0, NOW));
        turn.note_released(3);
        assert!(turn.is_own(3, NOW), "all that was sent was held before");
        assert!(!turn.is_own(4, NOW), "a reply has left at once");
        assert!(!turn.is_own(4, NOW + PAUSE / 2));
        assert!(turn.is_own(4, NOW + PAUSE));
    }

    #[test]
    fn worker_leaves_the_log_to_its_thread_after_a_slow_sync() {
        let mut turn = LogTurn::default();
        turn.note_sync(NOW, NOW + SLOW_SYNC);
        assert!(turn.is_own(0, NOW + SLOW_SYNC));
        let ended = NOW + 2 * SLOW_SYNC;
        turn.note_sync(NOW, ended);
        assert!(!turn.is_own(0, ended));
        assert!(turn.is_own(0, ended + PAUSE));
    }

    #[test]
    fn more_clients_are_taken_as_long_as_each_round_brings_one() {
        let check = |helds: &[usize], gathers| {
            let mut turn = LogTurn::default();
            let last = helds.iter().map(|&held| turn.gathers(held, 1000)).last();
            assert_eq!(last, Some(gathers), "{helds:?}");
        };
        check(&[1], true);
        check(&[1, 3], true);
        check(&[1, 3, 3], false);
        check(&[999], true);
        check(&[1000], false);
        let many: Vec<usize> = (1..=ROUNDS_MAX as usize).collect();
        check(&many[1..], true);
        check(&many, false);
    }

    #[test]
    fn polls_for_more_take_no_longer_than_a_sync() {
        let mut turn = LogTurn::default();
        turn.note_sync(NOW, NOW + 2 * NEXT_LIMIT);
        assert!(turn.gathers(1, 2));
        assert_eq!(turn.poll_limit(), NEXT_LIMIT);
        turn.polled = 2 * NEXT_LIMIT - Duration::from_micros(1);
        assert_eq!(turn.poll_limit(), Duration::from_micros(1));
        turn.end();
        // That was in vain, so that some turns go without.
        assert!(turn.gathers(1, 2));
        assert_eq!(turn.poll_limit(), Duration::ZERO);
    }
}
