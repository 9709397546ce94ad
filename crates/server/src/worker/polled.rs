//! How a worker serves the connections whose transports it polls: lanes.
//!
//! While the worker is awake it polls in each round those that it has served lately, and their
//! peers make no system call to reach it. Before it sleeps it arms each, which polls it once more;
//! from then on the peer causes an event of the poller. One that it has polled in vain for some
//! rounds is armed as well: a worker that others keep awake for hours does not poll all that it has
//! ever served.

use std::time::Duration;

use super::{Member, Worker};
use crate::token_table::Token;

/// Polls in a row that found nothing, after which a transport is armed.
const POLLS_MAX: u32 = 64;
/// Polls of each transport between two system calls while a worker polls before it sleeps.
const POLLS_PER_CALL: u32 = 16;

impl Worker<'_> {
    /// Returns whether the worker may sleep: nothing is left to do, and every peer will wake it.
    pub(super) fn may_sleep(&mut self) -> bool {
        let may_sleep = self.is_idle();
        let mut awake = std::mem::take(&mut self.awake);
        awake.retain(|token| self.stays_awake(*token, may_sleep));
        self.awake = awake;
        self.is_idle()
    }

    /// Arms all but the lone client, which alone is polled for: what another need not be served at
    /// once, as the deletion of what it has taken, would count as a client beside it. Returns false
    /// where there is something to do for one.
    pub(super) fn arms_others(&mut self) -> bool {
        let lone_client = self.polling.lone_client();
        let mut awake = std::mem::take(&mut self.awake);
        awake.retain(|token| Some(*token) == lone_client || self.stays_awake(*token, true));
        self.awake = awake;
        self.is_idle()
    }

    /// Queues what there is to do for a connection that is polled. Where there is nothing, and the
    /// worker may sleep or has polled often enough, it is armed, and the answer is false.
    fn stays_awake(&mut self, token: Token, may_sleep: bool) -> bool {
        let Some(member) = self.connections.get_mut(token) else { return false };
        member.polls += 1;
        let is_over = may_sleep || member.polls > POLLS_MAX;
        if is_over && !member.arm() {
            member.is_awake = false;
            return false;
        }
        self.poll(token);
        true
    }

    /// Polls those that are awake, and queues what there is to do; returns whether there is
    /// anything. More than once before the poller is asked again, which takes a system call.
    pub(super) fn poll_awake(&mut self) -> bool {
        for _ in 0..POLLS_PER_CALL {
            for index in 0..self.awake.len() {
                self.poll(self.awake[index]);
            }
            if self.awake.is_empty() || !self.is_idle() {
                break;
            }
            std::hint::spin_loop();
        }
        !self.is_idle()
    }

    /// Queues what there is to do for a connection: requests, and room for replies that wait for
    /// it.
    #[inline]
    fn poll(&mut self, token: Token) {
        let Some(member) = self.connections.get_mut(token) else { return };
        let (wants_requests, wants_room) = (member.wants_requests(), member.wants_room());
        let transport = member.connection.transport();
        if wants_room && transport.has_room() && !member.is_unflushed {
            member.is_unflushed = true;
            self.unflushed.push(token);
        }
        if wants_requests && transport.has_requests() {
            member.is_queued = true;
            self.queued.push_back(token);
        }
    }

    /// Tells the peer that is `polled_for` for how long, and the one that was told so before that
    /// it is no more.
    pub(super) fn announce_busy_poll(&mut self, polled_for: Option<Token>) {
        let before = std::mem::replace(&mut self.polled_for, polled_for);
        if before == polled_for {
            return;
        }
        for (token, limit) in [(before, Duration::ZERO), (polled_for, self.busy_poll_limit)] {
            if let Some(member) = token.and_then(|token| self.connections.get_mut(token)) {
                member.connection.transport().set_busy_poll_limit(limit);
            }
        }
    }
}

impl Member {
    /// Returns whether requests are served that come now.
    fn wants_requests(&self) -> bool {
        self.connection.wants_input() && !self.is_queued
    }

    /// Returns whether replies are sent as soon as there is room. Those that are held are not.
    fn wants_room(&self) -> bool {
        self.awaits_room && !self.is_held
    }

    /// Has the peer cause an event for what the worker waits for; returns whether that is there
    /// already.
    fn arm(&mut self) -> bool {
        let (wants_requests, wants_room) = (self.wants_requests(), self.wants_room());
        self.connection.transport().arm(wants_requests, wants_room)
    }
}

/// Notes that the worker polls the connection of `token`.
pub(super) fn stay_awake(awake: &mut Vec<Token>, member: &mut Member, token: Token) {
    if !member.is_awake {
        member.is_awake = true;
        member.polls = 0;
        awake.push(token);
    }
}
