//! The connections of one worker that wait for something else than their peers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use command::Wake;

use super::{DEFERRED_BYTES_MAX, Worker};
use crate::connection::WorkerContext;
use crate::token_table::Token;
use crate::wait_claim::WaitReason;

/// How many keys of waits that end a worker takes out of their shards in one round; the last wait
/// may pass it. Those that are left come in the next round, behind what others have sent.
pub(super) const ENDED_KEYS_PER_ROUND_MAX: usize = 16 * 1024;

/// Who waits, and until when.
#[derive(Default)]
pub(super) struct Waiting {
    /// For the end of a pause, by the order in which they came.
    paused: BTreeMap<u64, Token>,
    paused_count: u64,
    /// When waits end by themselves, by the steady clock, and whose: the bits of tokens.
    limits: BTreeSet<(Duration, u64)>,
}

/// Where a connection stands among those that wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum WaitPlace {
    /// Nowhere: it does not wait, or nothing but another session ends its wait.
    Nowhere,
    /// So many have begun to wait for the end of a pause before it.
    Paused(u64),
    /// Its wait ends by itself then.
    Limited(Duration),
}

impl Waiting {
    /// Notes that the connection of `token` begins to wait, for no longer than `limit`, and returns
    /// its place.
    pub fn begin(
        &mut self,
        wait_reason: WaitReason,
        token: Token,
        limit: Option<Duration>,
    ) -> WaitPlace {
        match (wait_reason, limit) {
            (WaitReason::Paused, _) => {
                self.paused_count += 1;
                self.paused.insert(self.paused_count, token);
                WaitPlace::Paused(self.paused_count)
            }
            (WaitReason::Blocked, Some(limit)) => {
                let end = sys::clock::monotonic().saturating_add(limit);
                self.limits.insert((end, token.to_bits()));
                WaitPlace::Limited(end)
            }
            (WaitReason::Blocked, None) | (WaitReason::Server, _) => WaitPlace::Nowhere,
        }
    }

    /// Returns whether any wait may end by itself.
    #[inline]
    pub fn has_limits(&self) -> bool {
        !self.limits.is_empty()
    }

    /// Returns when the first wait ends by itself.
    #[inline]
    pub fn first_limit(&self) -> Option<Duration> {
        self.limits.first().map(|(limit, _)| *limit)
    }

    /// Forgets the connection of `token`, which has `place`: it waits no longer.
    pub fn forget(&mut self, token: Token, place: WaitPlace) {
        match place {
            WaitPlace::Nowhere => {}
            WaitPlace::Paused(number) => drop(self.paused.remove(&number)),
            WaitPlace::Limited(end) => drop(self.limits.remove(&(end, token.to_bits()))),
        }
    }

    /// Takes those that wait for the end of a pause, in the order in which they came.
    fn take_paused(&mut self) -> impl Iterator<Item = Token> + use<> {
        std::mem::take(&mut self.paused).into_values()
    }

    /// Takes one whose wait has ended at `now`.
    fn take_over(&mut self, now: Duration) -> Option<Token> {
        let first = *self.limits.first().filter(|(limit, _)| *limit <= now)?;
        self.limits.remove(&first);
        Some(Token::from_bits(first.1).0)
    }
}

impl Worker<'_> {
    /// Ends the waits whose time has passed.
    pub(super) fn end_long_waits(&mut self) {
        let now = sys::clock::monotonic();
        while self.ended_keys < ENDED_KEYS_PER_ROUND_MAX
            && let Some(token) = self.waiting.take_over(now)
        {
            let Some(member) = self.connections.get_mut(token) else { continue };
            member.place = WaitPlace::Nowhere;
            // Another may have ended the wait just now: its message says how.
            if member.connection.claim() {
                self.go_on(token, Wake::TimedOut);
            }
        }
    }

    /// Ends the wait of the connection of `token`, sends the reply and lets the rest of its
    /// requests have their turns.
    pub(super) fn go_on(&mut self, token: Token, wake: Wake) {
        let Some(member) = self.connections.get_mut(token) else { return };
        self.ended_keys += member.connection.awaited_key_count();
        match member.connection.wake(wake, &mut context!(self)) {
            Ok(true) => {
                let place = std::mem::replace(&mut member.place, WaitPlace::Nowhere);
                self.waiting.forget(token, place);
                self.queue_turn(token);
                self.reply_after_wait(token);
            }
            Ok(false) if member.connection.is_to_continue() => {
                member.place = self.waiting.begin(WaitReason::Paused, token, None);
            }
            // What it waits with may have grown.
            Ok(false) => self.unreported_bytes += member.connection.count_memory(),
            Err(end) => self.close(token, end),
        }
    }

    /// Sends the reply to a session that has waited, at the end of the round where it is short.
    fn reply_after_wait(&mut self, token: Token) {
        let Some(member) = self.connections.get_mut(token) else { return };
        let is_long = member.connection.unsent_bytes() > DEFERRED_BYTES_MAX;
        match is_long && !member.awaits_room {
            true => self.flush(token),
            false => self.flush_later(token),
        }
        if is_long {
            // What others get who are woken in this round depends on it.
            self.report_memory();
        }
    }

    /// Lets those go on that a pause made wait, in the order in which they came; those first whom
    /// keys were ready for.
    pub(super) fn resume(&mut self) {
        self.shared.runtime.engine().serve_left(&mut self.execution);
        for token in self.waiting.take_paused() {
            let Some(member) = self.connections.get_mut(token) else { continue };
            member.place = WaitPlace::Nowhere;
            if member.connection.is_to_continue() {
                self.go_on(token, Wake::Continued);
            } else if member.connection.resume() {
                self.queue_turn(token);
            }
        }
    }
}
