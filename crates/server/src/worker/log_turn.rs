//! Who writes the log for the replies that a worker holds: the worker itself where all of its
//! clients are writers, else the log thread.
//!
//! To wake the log thread, and to be woken by it, takes about as long as a sync on a fast disk. A
//! worker that has nothing else to do spares both. While it waits for the disk it serves nobody:
//! hence a single client whose last request was no change leaves the log to its thread, as the next
//! is likely to need no disk.
//!
//! A sync costs as much as some ten changes, whatever it makes durable. So a worker looks before it
//! whether more requests have come, and serves those first. It polls for a moment only where that
//! many clients fewer wait than at its last syncs: they got their replies at the same time, and
//! some are about to send their next requests.
//!
//! A disk that a host lends to its virtual machines sleeps between requests: what comes 100 us
//! behind the last one waits for a thread of the host. So a worker has the disk begin something of
//! no consequence when the first reply of many is held, and finds it awake
//! (`docs/decisions/0018-log.md`).

use std::hint;
use std::io;
use std::time::Duration;

use runtime::SyncPolicy;
use sys::poll::Events;

use super::Worker;

/// A sync that takes longer is one of a disk that nobody else is to wait for, such as who connects
/// meanwhile.
const SLOW_SYNC: Duration = Duration::from_millis(10);
/// How long a worker leaves the log to its thread after such a sync: twice as long after each that
/// follows another, so that a host that stands still for a moment costs a moment, and a slow disk
/// is tried every ten seconds.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// When a worker looks for more requests for the last time, after its first look: about two syncs
/// of a fast disk. It serves what it finds then.
const GATHERING_MAX: Duration = Duration::from_micros(250);
/// For how long it polls behind the last request that it has found, where clients are missed.
const POLLING_MAX: Duration = Duration::from_micros(30);
/// How many clients fewer than at a sync lately wait where they are missed: as many changes as a
/// sync costs. For so many a sync is likely to be, at least, before which the disk is woken.
const MISSED_MIN: usize = 10;
/// Pauses before each further poll, 1 to 2 us: they leave the processor to its other thread, on
/// which the client may run.
const PAUSES_PER_POLL: usize = 50;

/// Mean time of a sync above which the disk is not woken: the wait is little of that, and a disk
/// whose requests are counted would count one more.
const QUICK_SYNC_MAX: Duration = Duration::from_micros(250);
/// Of how many syncs that is the mean, the later ones more than the earlier ones, and as how long
/// each counts at most: the host may stand still in one.
const SYNCS_COUNTED: u32 = 16;
const COUNTED_MAX: Duration = Duration::from_millis(1);
/// How long a disk that cannot be woken is let alone.
const WAKE_PAUSE: Duration = Duration::from_millis(100);

/// What a worker knows of its turns to write the log.
#[derive(Debug)]
pub(super) struct LogTurn {
    /// Replies are held for which nobody has been asked to write the log.
    is_due: bool,
    /// How many clients changed something by their last requests.
    writers: usize,
    gathering: Option<Gathering>,
    /// How many clients waited at its last two syncs.
    waited: [usize; 2],
    /// How long syncs took lately.
    sync_time: Duration,
    /// Until when the disk is not woken.
    wake_pause_end: Duration,
    /// Until when the log thread writes, by the steady clock.
    pause_end: Duration,
    /// For how long it will after the next slow sync.
    pause: Duration,
}

/// The looks for more requests before a sync; times are of the steady clock.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    /// When the first one was.
    began: Duration,
    /// When one more client waited than at the look before.
    found_at: Duration,
    /// How many waited then.
    held: usize,
}

impl Default for LogTurn {
    fn default() -> LogTurn {
        LogTurn {
            is_due: false,
            writers: 0,
            gathering: None,
            waited: [0; 2],
            sync_time: Duration::ZERO,
            wake_pause_end: Duration::ZERO,
            pause_end: Duration::ZERO,
            pause: PAUSE_MIN,
        }
    }
}

impl LogTurn {
    /// Returns whether replies are held for which the log is still to be written.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    pub(super) fn add_writer(&mut self) {
        self.writers += 1;
    }

    pub(super) fn remove_writer(&mut self) {
        self.writers -= 1;
    }

    /// Returns whether to look for more requests, where `held` of its `clients` wait for the log:
    /// while each look brings a client more, and for a moment where many are missed.
    fn looks_again(&mut self, held: usize, clients: usize, now: Duration) -> bool {
        let are_missed = self.is_own(clients, now) && held + MISSED_MIN <= self.expected();
        let first = Gathering { began: now, found_at: now, held: 0 };
        let gathering = self.gathering.get_or_insert(first);
        let is_found = held > gathering.held;
        if is_found {
            (gathering.found_at, gathering.held) = (now, held);
        }
        let is_missing = are_missed && now < gathering.found_at + POLLING_MAX;
        held < clients && (is_found || is_missing) && now < gathering.began + GATHERING_MAX
    }

    /// Returns for how many clients the next sync is likely to be.
    fn expected(&self) -> usize {
        self.waited[0].max(self.waited[1])
    }

    /// Returns whether it is worth the worker's time to wake the disk for its next sync: whether
    /// many of its `clients` are likely to wait for that, and the disk is quick.
    fn wakes_disk(&self, clients: usize, now: Duration) -> bool {
        let is_quick = self.sync_time <= QUICK_SYNC_MAX && now >= self.wake_pause_end;
        is_quick && self.expected() >= MISSED_MIN && self.is_own(clients, now)
    }

    /// Ends the gathering, where `held` clients wait for the sync that comes.
    fn end_gathering(&mut self, held: usize) {
        self.gathering = None;
        self.waited = [held, self.waited[0]];
    }

    /// Returns whether the worker, which has so many `clients`, writes the log.
    fn is_own(&self, clients: usize, now: Duration) -> bool {
        self.writers == clients && now >= self.pause_end
    }

    fn note_sync(&mut self, began: Duration, ended: Duration) {
        let time = ended.saturating_sub(began);
        self.sync_time =
            (self.sync_time * (SYNCS_COUNTED - 1) + time.min(COUNTED_MAX)) / SYNCS_COUNTED;
        if time <= SLOW_SYNC {
            self.pause = PAUSE_MIN;
            return;
        }
        self.pause_end = ended + self.pause;
        self.pause = (2 * self.pause).min(PAUSE_MAX);
    }
}

impl Worker<'_> {
    /// Notes that replies are held. Where they are the first of many, the log is written some 100
    /// us later: the disk is woken for that.
    pub(super) fn note_held(&mut self) {
        let is_first = !std::mem::replace(&mut self.log_turn.is_due, true);
        let is_always = self.settings.persistence.sync_policy == SyncPolicy::Always;
        if !is_first || !is_always {
            return;
        }
        let now = sys::clock::monotonic();
        if self.log_turn.wakes_disk(self.tokens.len(), now) && !self.shared.durability.wake_disk() {
            self.log_turn.wake_pause_end = now + WAKE_PAUSE;
        }
    }

    /// Sees to the log for the replies that are held, unless more requests have come: those are
    /// served first. Returns whether they have, as `events`.
    ///
    /// # Errors
    /// When it cannot look.
    #[inline(never)]
    pub(super) fn sees_to_log(&mut self, events: &mut Events) -> io::Result<bool> {
        let (held, clients) = (self.held_count, self.tokens.len());
        let mut pauses = 0;
        while self.is_idle() && self.log_turn.looks_again(held, clients, sys::clock::monotonic()) {
            (0..pauses).for_each(|_| hint::spin_loop());
            pauses = PAUSES_PER_POLL;
            self.poller.wait(events, Some(Duration::ZERO))?;
            if !events.is_empty() {
                return Ok(true);
            }
        }
        self.log_turn.end_gathering(held);
        self.take_log_turn();
        Ok(false)
    }

    /// Writes the log for the replies that are held, or has its thread do that.
    fn take_log_turn(&mut self) {
        let now = sys::clock::monotonic();
        let is_always = self.settings.persistence.sync_policy == SyncPolicy::Always;
        let is_own = self.log_turn.is_own(self.tokens.len(), now);
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
    fn worker_leaves_the_log_to_its_thread_while_a_client_is_no_writer() {
        let mut turn = LogTurn::default();
        turn.add_writer();
        assert!(turn.is_own(1, NOW));
        assert!(!turn.is_own(2, NOW), "another has changed nothing");
        turn.remove_writer();
        assert!(!turn.is_own(1, NOW), "it has asked for something else");
    }

    #[test]
    fn worker_looks_for_more_requests_while_each_look_brings_a_client() {
        let mut turn = LogTurn::default();
        assert!(turn.looks_again(1, 4, NOW));
        assert!(turn.looks_again(2, 4, NOW));
        assert!(!turn.looks_again(2, 4, NOW), "a look brought nobody who waits");
        turn.gathering = None;
        assert!(turn.looks_again(2, 4, NOW), "the next time");
        assert!(!turn.looks_again(4, 4, NOW), "nobody is left");
    }

    #[test]
    fn worker_looks_for_a_moment_where_many_are_missed() {
        let mut turn = LogTurn::default();
        (0..50).for_each(|_| turn.add_writer());
        let later = NOW + POLLING_MAX / 2;
        // Behind a frame of many and one of few.
        turn.end_gathering(48);
        turn.end_gathering(3);
        assert!(turn.looks_again(6, 50, NOW));
        assert!(turn.looks_again(6, 50, later), "some are about to send more");
        assert!(turn.looks_again(8, 50, later), "one has");
        assert!(turn.looks_again(8, 50, later + POLLING_MAX / 2));
        assert!(!turn.looks_again(8, 50, later + POLLING_MAX), "nobody does");
        assert!(turn.looks_again(9, 50, NOW + GATHERING_MAX - POLLING_MAX / 2));
        assert!(!turn.looks_again(9, 50, NOW + GATHERING_MAX), "the others have waited for long");
        turn.end_gathering(8);
        assert!(turn.looks_again(6, 50, NOW));
        assert!(!turn.looks_again(6, 50, later), "a few fewer than usual are not waited for");
        turn.end_gathering(6);
        turn.end_gathering(40);
        turn.remove_writer();
        assert!(turn.looks_again(6, 50, NOW));
        assert!(!turn.looks_again(6, 50, later), "the log thread writes");
    }

    #[test]
    fn worker_holds_replies_no_longer_than_for_a_sync_or_two_to_serve_others() {
        let mut turn = LogTurn::default();
        assert!(turn.looks_again(1, 9, NOW));
        assert!(turn.looks_again(2, 9, NOW + GATHERING_MAX / 2));
        assert!(!turn.looks_again(3, 9, NOW + GATHERING_MAX));
    }

    #[test]
    fn quick_disk_is_woken() {
        let mut turn = LogTurn { waited: [0, MISSED_MIN - 1], ..LogTurn::default() };
        turn.add_writer();
        assert!(!turn.wakes_disk(1, NOW), "few wait");
        turn.waited[0] = MISSED_MIN;
        assert!(turn.wakes_disk(1, NOW));
        assert!(!turn.wakes_disk(2, NOW), "the log thread writes");
        (0..99).for_each(|_| turn.note_sync(NOW, NOW + QUICK_SYNC_MAX));
        assert!(turn.wakes_disk(1, NOW));
        turn.note_sync(NOW, NOW + SLOW_SYNC);
        assert!(!turn.wakes_disk(1, NOW));
        (0..99).for_each(|_| turn.note_sync(NOW, NOW + QUICK_SYNC_MAX / 2));
        assert!(turn.wakes_disk(1, NOW), "the host stood still in one sync");
        (0..99).for_each(|_| turn.note_sync(NOW, NOW + QUICK_SYNC_MAX * 5 / 4));
        assert!(!turn.wakes_disk(1, NOW));
        (turn.sync_time, turn.wake_pause_end) = (Duration::ZERO, NOW + WAKE_PAUSE);
        assert!(!turn.wakes_disk(1, NOW), "it cannot be woken");
        assert!(turn.wakes_disk(1, NOW + WAKE_PAUSE));
    }

    #[test]
    fn worker_leaves_the_log_to_its_thread_after_a_slow_sync() {
        let mut turn = LogTurn::default();
        turn.add_writer();
        turn.note_sync(NOW, NOW + SLOW_SYNC);
        assert!(turn.is_own(1, NOW + SLOW_SYNC));
        let ended = NOW + 2 * SLOW_SYNC;
        turn.note_sync(NOW, ended);
        assert!(!turn.is_own(1, ended));
        assert!(turn.is_own(1, ended + PAUSE_MIN));
    }

    #[test]
    fn worker_leaves_the_log_for_longer_where_each_sync_is_slow() {
        let mut turn = LogTurn::default();
        turn.add_writer();
        let mut pauses = Vec::new();
        for _ in 0..10 {
            turn.note_sync(NOW, NOW + 2 * SLOW_SYNC);
            pauses.push(turn.pause_end - NOW - 2 * SLOW_SYNC);
        }
        assert_eq!(pauses[..3], [PAUSE_MIN, 2 * PAUSE_MIN, 4 * PAUSE_MIN]);
        assert_eq!(pauses[9], PAUSE_MAX);
        turn.note_sync(NOW, NOW + SLOW_SYNC);
        turn.note_sync(NOW, NOW + 2 * SLOW_SYNC);
        assert!(turn.is_own(1, NOW + 2 * SLOW_SYNC + PAUSE_MIN), "a quick one came in between");
    }
}
