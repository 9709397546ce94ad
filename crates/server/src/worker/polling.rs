//! Whether a worker polls for more requests for a while before it sleeps.
//!
//! A client that waits for each reply spends most of its time in waking the server and in being
//! woken. A worker that polls for the next request spares it the first half, and takes a processor
//! meanwhile. So unless it is told to poll always, it does so only for a client that is alone and
//! asks one thing after the other, as long as that pays.

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

/// Rounds in a row with one and the same client and no other, after which it is alone.
const ROUNDS_ALONE: u32 = 16;

/// A client that asks again within so long after a poll has ended in vain has most likely waited
/// for the processor that polled.
const SOON: Duration = Duration::from_micros(50);
/// A worker does not leave its processor more often than so, where that does not help.
const MOVES_MAX: u32 = 2;
/// Polls that pay after which it is said to have helped.
const PAYING_PER_MOVE: u32 = 256;

/// What one worker knows of the rounds behind it.
#[derive(Debug, Default)]
pub struct Polling {
    /// The last client that was the only one of a round.
    lone: Option<Token>,
    /// Rounds in a row that it was the only one.
    rounds: u32,
    /// Whether it paid to poll for it.
    spin_policy: SpinPolicy,
    /// The last wait brought something to do.
    has_worked: bool,
    /// When a poll in vain has ended, if the wait behind it has not.
    vain_since: Option<Duration>,
    /// How often the worker has left its processor to this client.
    moves: u32,
    /// Polls that paid since that was last reduced.
    paying: u32,
}

impl Polling {
    /// Takes note of what a wait brought: whether there is something to do, and `source`, the only
    /// client that there is something to do for.
    #[inline]
    pub fn note(&mut self, source: Option<Token>, has_work: bool) {
        self.has_worked = has_work;
        if source.is_some() && source == self.lone {
            self.rounds = self.rounds.saturating_add(1);
            return;
        }
        self.rounds = 0;
        if source.is_some() {
            // Whether it pays is another client's matter, too.
            self.lone = source;
            self.spin_policy = SpinPolicy::default();
            self.moves = 0;
        }
    }

    /// Returns the last client that was the only one of a round.
    #[inline]
    pub fn lone_client(&self) -> Option<Token> {
        self.lone
    }

    /// Returns whether the worker is to poll before the wait that comes now.
    #[inline]
    pub fn is_due(&mut self, mode: PollMode) -> bool {
        match mode {
            PollMode::No => false,
            PollMode::Always => self.has_worked,
            PollMode::Lone => self.rounds >= ROUNDS_ALONE && self.spin_policy.is_due(),
        }
    }

    /// Takes note that polling brought something.
    #[inline]
    pub fn learn_paying(&mut self) {
        self.spin_policy.learn(true);
        self.paying += 1;
        if self.paying >= PAYING_PER_MOVE {
            (self.paying, self.moves) = (0, 0);
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
        let is_due = mode == PollMode::Lone
            && now.saturating_sub(since) < SOON
            && self.rounds >= ROUNDS_ALONE
            && self.moves < MOVES_MAX;
        if is_due {
            self.moves += 1;
            self.paying = 0;
            self.spin_policy = SpinPolicy::default();
        }
        is_due
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
        assert!(polling.is_due(PollMode::Lone));
        for other in [client(8), None] {
            let mut polling = alone();
            polling.note(other, true);
            assert!(!polling.is_due(PollMode::Lone), "{other:?}");
        }
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
        (0..=ROUNDS_ALONE).for_each(|_| polling.note(client(8), true));
        assert!(polling.is_due(PollMode::Lone));
    }

    #[test]
    fn processor_is_left_to_a_client_that_asks_as_soon_as_polling_has_ended() {
        let at = Duration::from_micros;
        let mut polling = alone();
        assert_eq!(polling.take_vain(), None);
        polling.learn_vain(at(100));
        assert_eq!((polling.take_vain(), polling.take_vain()), (Some(at(100)), None));
        assert!(!polling.leaves_processor(PollMode::Lone, at(100), at(150)), "not at once");
        assert!(!polling.leaves_processor(PollMode::Always, at(100), at(101)));
        assert!(!polling.is_due(PollMode::Lone));
        assert!(polling.leaves_processor(PollMode::Lone, at(100), at(149)));
        assert!(polling.is_due(PollMode::Lone), "it is tried again at once");
        // Where that does not help it is left as it is, until polling has paid for long.
        assert!(polling.leaves_processor(PollMode::Lone, at(0), at(1)));
        assert!(!polling.leaves_processor(PollMode::Lone, at(0), at(1)));
        (0..PAYING_PER_MOVE).for_each(|_| polling.learn_paying());
        assert!(polling.leaves_processor(PollMode::Lone, at(0), at(1)));
        polling.note(client(8), true);
        assert!(!polling.leaves_processor(PollMode::Lone, at(0), at(1)), "it is not alone");
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
