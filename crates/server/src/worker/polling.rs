//! Whether a worker polls for more requests for a while before it sleeps.
//!
//! A client that waits for each reply spends most of its time in waking the server and in being
//! woken. A worker that polls for the next request spares it the first half, and takes a processor
//! meanwhile. So unless it is told to poll always, it does so only for a client that is alone and
//! asks one thing after the other, as long as that pays, and not on the processor of that client,
//! which could not ask meanwhile: it goes to another.

use std::time::Duration;

use base::spin_policy::SpinPolicy;

use crate::config::kind::Named;
use crate::token_table::Token;

/// When workers poll before they sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMode {
    /// Never.
    No,
    /// Where one client asks, and none other.
    Lone,
    /// Behind each round that had something to do.
    Always,
}

impl Named for PollMode {
    const ALL: &'static [PollMode] = &[PollMode::No, PollMode::Lone, PollMode::Always];

    fn name(self) -> &'static str {
        match self {
            PollMode::No => "no",
            PollMode::Lone => "lone",
            PollMode::Always => "always",
        }
    }
}

/// Rounds with one and the same client, after which it is alone.
const ROUNDS_ALONE: u32 = 16;
/// More of them are not counted.
const ROUNDS_MAX: u32 = 4 * ROUNDS_ALONE;
/// A round without it takes so many away: it stays alone beside one that asks more rarely than once
/// in so many of its rounds, as does the client that takes what this one puts and deletes it once
/// in a millisecond.
const ROUNDS_PER_OTHER: u32 = 8;
/// Rounds after one for another client in which that may be the peer of this one: it waits for what
/// this one puts, and maybe for the processor of the worker.
const ROUNDS_WITH_PEER: u32 = 256;

/// A client that asks again within so long after a poll has ended in vain has most likely waited
/// for the processor that polled.
const SOON: Duration = Duration::from_micros(50);
/// A worker does not leave its processor before so long after it has done so. Each time that did
/// not help it waits twice as long.
const MOVE_PAUSE_MIN: Duration = Duration::from_millis(1);
const MOVE_PAUSE_MAX: Duration = Duration::from_millis(256);
/// Polls that pay after which it is said to have helped.
const PAYING_PER_MOVE: u32 = 256;

/// What one worker knows of the rounds behind it.
#[derive(Debug)]
pub struct Polling {
    /// The client that was the only one of most rounds.
    lone: Option<Token>,
    /// Rounds in which it was the only one; fewer where others were between.
    rounds: u32,
    /// Rounds with it since the last with another.
    rounds_since_other: u32,
    /// Whether it paid to poll for it.
    spin_policy: SpinPolicy,
    /// The last wait brought something to do.
    has_worked: bool,
    /// When a poll in vain has ended, if the wait behind it has not.
    vain_since: Option<Duration>,
    /// When the worker has left its processor last, and for how long it stays from then on.
    moved_at: Duration,
    move_pause: Duration,
    /// Polls that paid since it has moved.
    paying: u32,
}

impl Default for Polling {
    fn default() -> Polling {
        Polling {
            lone: None,
            rounds: 0,
            rounds_since_other: ROUNDS_WITH_PEER,
            spin_policy: SpinPolicy::default(),
            has_worked: false,
            vain_since: None,
            moved_at: Duration::ZERO,
            move_pause: MOVE_PAUSE_MIN,
            paying: 0,
        }
    }
}

impl Polling {
    /// Takes note of what a wait brought: whether there is something to do, and `source`, the only
    /// client that there is something to do for.
    #[inline]
    pub fn note(&mut self, source: Option<Token>, has_work: bool) {
        self.has_worked = has_work;
        if source.is_some() && source == self.lone {
            self.rounds = (self.rounds + 1).min(ROUNDS_MAX);
            self.rounds_since_other = (self.rounds_since_other + 1).min(ROUNDS_WITH_PEER);
            return;
        }
        if source.is_some() {
            self.rounds_since_other = 0;
        }
        self.rounds = self.rounds.saturating_sub(ROUNDS_PER_OTHER);
        if source.is_some() && self.rounds == 0 {
            // Whether it pays, and whether moves help, is another client's matter, too.
            self.lone = source;
            self.rounds_since_other = ROUNDS_WITH_PEER;
            self.spin_policy = SpinPolicy::default();
            self.move_pause = MOVE_PAUSE_MIN;
        }
    }

    /// Returns the client that was the only one of most rounds.
    #[inline]
    pub fn lone_client(&self) -> Option<Token> {
        self.lone
    }

    /// Returns whether that client is alone.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.rounds >= ROUNDS_ALONE
    }

    /// Returns whether the worker is to poll before the wait that comes now.
    #[inline]
    pub fn is_due(&mut self, mode: PollMode) -> bool {
        match mode {
            PollMode::No => false,
            PollMode::Always => self.has_worked,
            PollMode::Lone => self.is_alone() && self.spin_policy.is_due(),
        }
    }

    /// Returns whether the worker, while it polls, offers its processor to others. Where the client
    /// has no peer it does not: it would wait for whoever is busy with something else.
    pub fn yields(&self, mode: PollMode) -> bool {
        mode == PollMode::Lone && self.rounds_since_other < ROUNDS_WITH_PEER
    }

    /// Takes note that polling brought something.
    #[inline]
    pub fn learn_paying(&mut self) {
        self.spin_policy.learn(true);
        self.paying += 1;
        if self.paying >= PAYING_PER_MOVE {
            (self.paying, self.move_pause) = (0, MOVE_PAUSE_MIN);
        }
    }

    /// Takes note that polling brought nothing until `now`.
    pub fn learn_vain(&mut self, now: Duration) {
        self.spin_policy.learn(false);
        self.vain_since = Some(now);
    }

    /// Returns when a poll in vain has ended, for the wait behind it.
    #[inline]
    pub fn take_vain(&mut self) -> Option<Duration> {
        self.vain_since.take()
    }

    /// Returns whether the worker is to leave its processor, as what it has polled for in vain
    /// until `since` was there at `now`, when it slept. A client on the same processor cannot ask
    /// while the worker polls, and the system leaves both where they are as long as they take
    /// turns.
    pub fn leaves_processor(&mut self, mode: PollMode, since: Duration, now: Duration) -> bool {
        mode == PollMode::Lone
            && now.saturating_sub(since) < SOON
            && self.is_alone()
            && self.may_move(now)
    }

    /// Returns whether the worker, which shares its processor with the client that it would poll
    /// for, is to leave it at `now`.
    pub fn may_move(&mut self, now: Duration) -> bool {
        let may_move = now >= self.moved_at + self.move_pause;
        if may_move {
            self.moved_at = now;
            self.move_pause = (2 * self.move_pause).min(MOVE_PAUSE_MAX);
            self.paying = 0;
            // Polls here were in vain for another reason.
            self.spin_policy.try_again();
        }
        may_move
    }
}

/// Returns how long workers poll where the options say `mode` and `limit`; zero for not at all.
///
/// They poll for a lone client by themselves only where as many processors are left as there are
/// workers, so that none that polls keeps the client from running.
pub fn limit_of(mode: PollMode, limit: Duration, worker_count: usize) -> Duration {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    match mode {
        PollMode::No => Duration::ZERO,
        PollMode::Lone if 2 * worker_count > processors => Duration::ZERO,
        PollMode::Lone | PollMode::Always => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u64) -> Option<Token> {
        Some(Token::from_bits(number).0)
    }

    fn alone() -> Polling {
        let mut polling = Polling::default();
        for _ in 0..=ROUNDS_ALONE {
            polling.note(client(7), true);
        }
        polling
    }

    #[test]
    fn only_a_client_that_has_been_alone_for_long_is_polled_for() {
        let mut polling = Polling::default();
        for _ in 0..ROUNDS_ALONE {
            polling.note(client(7), true);
            assert!(!polling.is_due(PollMode::Lone));
        }
        polling.note(client(7), true);
        assert!(polling.is_due(PollMode::Lone) && !polling.yields(PollMode::Lone));
        for other in [client(8), None] {
            let mut polling = alone();
            polling.note(other, true);
            assert!(!polling.is_due(PollMode::Lone), "{other:?}");
        }
    }

    #[test]
    fn client_that_asks_now_and_then_beside_another_leaves_that_alone() {
        let mut polling = alone();
        for _ in 0..100 {
            (0..=ROUNDS_PER_OTHER).for_each(|_| polling.note(client(7), true));
            assert!(polling.is_due(PollMode::Lone));
            polling.note(client(8), true);
            assert_eq!(polling.lone_client(), client(7));
        }
        assert!(polling.is_due(PollMode::Lone), "the first will ask before the other does");
        assert!(polling.yields(PollMode::Lone) && !polling.yields(PollMode::Always));
        (0..ROUNDS_WITH_PEER).for_each(|_| polling.note(client(7), true));
        assert!(!polling.yields(PollMode::Lone), "nobody takes what it puts");
        (0..ROUNDS_MAX).for_each(|_| polling.note(client(8), true));
        assert_eq!(polling.lone_client(), client(8));
    }

    #[test]
    fn polling_in_vain_counts_against_its_client_alone() {
        let mut polling = alone();
        polling.learn_vain(Duration::ZERO);
        assert!(!polling.is_due(PollMode::Lone));
        // A round for the worker itself makes nothing forgotten.
        polling.note(None, true);
        (0..ROUNDS_ALONE).for_each(|_| polling.note(client(7), true));
        assert!(!polling.is_due(PollMode::Lone));
        (0..ROUNDS_MAX).for_each(|_| polling.note(client(8), true));
        assert!(polling.is_due(PollMode::Lone));
    }

    #[test]
    fn processor_is_left_to_a_client_that_asks_as_soon_as_polling_has_ended() {
        let at = |microseconds| Duration::from_secs(1) + Duration::from_micros(microseconds);
        let mut polling = alone();
        assert_eq!(polling.take_vain(), None);
        polling.learn_vain(at(100));
        assert_eq!((polling.take_vain(), polling.take_vain()), (Some(at(100)), None));
        assert!(!polling.leaves_processor(PollMode::Lone, at(100), at(150)), "not at once");
        assert!(!polling.leaves_processor(PollMode::Always, at(100), at(101)));
        assert!(!polling.is_due(PollMode::Lone));
        assert!(polling.leaves_processor(PollMode::Lone, at(100), at(149)));
        assert!(polling.is_due(PollMode::Lone), "it is tried again at once");
        polling.note(client(8), true);
        assert!(!polling.leaves_processor(PollMode::Lone, at(9_999), at(10_000)), "not alone");
    }

    #[test]
    fn moves_become_rare_where_they_do_not_help() {
        let mut polling = alone();
        let moves = |polling: &mut Polling, from: u64, milliseconds: u64| {
            let times = (from..from + milliseconds).map(Duration::from_millis);
            times.filter(|now| polling.may_move(*now)).count()
        };
        assert_eq!(moves(&mut polling, 0, 16), 4, "at 1, 3, 7 and 15");
        assert!(moves(&mut polling, 16, 10_000) < 60, "not more than four in a second");
        polling.learn_vain(Duration::ZERO);
        assert!(!polling.is_due(PollMode::Lone));
        assert!(polling.may_move(Duration::from_secs(20)));
        assert!(polling.is_due(PollMode::Lone), "what was in vain here may pay there");
        (0..PAYING_PER_MOVE).for_each(|_| polling.learn_paying());
        assert!(polling.may_move(Duration::from_secs(22)));
        assert_eq!(moves(&mut polling, 22_001, 7), 2, "it has helped: at 22,002 and 22,006");
    }

    #[test]
    fn moves_that_did_not_help_one_client_hold_back_none_for_the_next() {
        let mut polling = alone();
        let moves = (0..2_000).filter(|at| polling.may_move(Duration::from_millis(*at)));
        let last = Duration::from_millis(moves.last().expect("the first is made"));
        (0..ROUNDS_MAX).for_each(|_| polling.note(client(8), true));
        assert_eq!(polling.lone_client(), client(8));
        assert!(!polling.may_move(last + MOVE_PAUSE_MIN / 2), "not twice in a millisecond");
        assert!(polling.may_move(last + MOVE_PAUSE_MIN));
    }

    #[test]
    fn the_options_say_when_to_poll() {
        let limit = Duration::from_micros(100);
        assert_eq!(limit_of(PollMode::No, limit, 1), Duration::ZERO);
        assert_eq!(limit_of(PollMode::Always, limit, usize::MAX / 4), limit);
        assert_eq!(limit_of(PollMode::Lone, limit, usize::MAX / 4), Duration::ZERO);
        let mut polling = alone();
        assert!(polling.is_due(PollMode::Always) && !polling.is_due(PollMode::No));
        polling.note(None, false);
        assert!(!polling.is_due(PollMode::Always));
    }
}
