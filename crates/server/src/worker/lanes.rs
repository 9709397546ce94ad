//! How a worker serves lanes among its connections.
//!
//! While the worker is awake it looks in each round at the lanes that it has served lately, and
//! their clients make no system call to reach it. Before it sleeps it tells each of them so and
//! looks once more; from then on the client rings the doorbell, an eventfd that the poller waits
//! for. One that it has looked at in vain for some rounds is told so as well: a worker that others
//! keep awake for hours does not look at all the lanes that it has ever served.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use command::ClientInfo;
use engine::Session;

use super::{Member, Worker, source};
use crate::connection::{Connection, End};
use crate::lanes::LaneSeat;
use crate::registry::Origin;
use crate::slab::Token;
use crate::transport::{LaneTransport, Transport};

/// Looks in a row at a lane that has nothing, after which its client has to ring.
const LOOKS_MAX: u32 = 64;
/// Looks at lanes between two system calls while a worker looks for requests before it sleeps.
const LOOKS_PER_CALL: u32 = 16;

impl Worker<'_> {
    /// Returns whether the worker may sleep: nothing is left to do, and every lane will ring.
    pub(super) fn may_sleep(&mut self) -> bool {
        let may_sleep = self.is_idle();
        let mut awake = std::mem::take(&mut self.awake);
        awake.retain(|token| self.stays_awake(*token, may_sleep));
        self.awake = awake;
        self.is_idle()
    }

    /// Queues what there is to do for a lane. Where there is nothing, and the worker may sleep or
    /// has looked often enough, the client rings from now on, and the answer is false.
    fn stays_awake(&mut self, token: Token, may_sleep: bool) -> bool {
        let Some(member) = self.connections.get_mut(token) else { return false };
        member.looks += 1;
        let is_over = may_sleep || member.looks > LOOKS_MAX;
        if is_over && !member.arm_lane() {
            member.is_awake = false;
            return false;
        }
        self.look_at_lane(token);
        true
    }

    /// Looks at the lanes that do not ring, and queues what there is to do; returns whether there
    /// is anything. More than once before the poller is asked again, which takes a system call.
    pub(super) fn look_at_lanes(&mut self) -> bool {
        for _ in 0..LOOKS_PER_CALL {
            for index in 0..self.awake.len() {
                self.look_at_lane(self.awake[index]);
            }
            if self.awake.is_empty() || !self.is_idle() {
                break;
            }
            std::hint::spin_loop();
        }
        !self.is_idle()
    }

    /// Queues what there is to do for a lane: requests, and room for replies that wait for it.
    #[inline]
    fn look_at_lane(&mut self, token: Token) {
        let Some(member) = self.connections.get_mut(token) else { return };
        let (wants_requests, wants_room) = (member.wants_requests(), member.awaits_room);
        let Some(lane) = member.connection.lane() else { return };
        if wants_room && lane.has_room() && !member.is_unflushed {
            member.is_unflushed = true;
            self.unflushed.push(token);
        }
        if wants_requests && lane.has_requests() {
            member.is_queued = true;
            self.queued.push_back(token);
        }
    }

    /// Tells the client that is `looked_for`, if it has a lane, for how long; and the one that was
    /// told so before that it is no more.
    pub(super) fn announce_look(&mut self, looked_for: Option<Token>) {
        let before = std::mem::replace(&mut self.looked_for, looked_for);
        if before == looked_for {
            return;
        }
        for (token, limit) in [(before, Duration::ZERO), (looked_for, self.look_limit)] {
            let member = token.and_then(|token| self.connections.get_mut(token));
            if let Some(lane) = member.and_then(|member| member.connection.lane()) {
                lane.set_look_limit(limit);
            }
        }
    }

    /// Serves a lane whose client has rung: it has sent requests, or made room for replies.
    pub(super) fn on_ring(&mut self, token: Token) {
        let Some(member) = self.connections.get_mut(token) else { return };
        self.counters.lane_rings.add(1);
        if member.awaits_room && !member.is_unflushed {
            member.is_unflushed = true;
            self.unflushed.push(token);
        }
        if !member.is_queued {
            self.serve(token);
        }
    }

    /// Begins to serve a lane that the registry has counted in, unless it has been ended meanwhile
    /// or its memory is not `ready`.
    pub(super) fn add_lane(&mut self, seat: LaneSeat, ready: io::Result<()>) {
        let (id, now) = (seat.id, self.tick.now);
        if let Err(error) = ready {
            // Nothing may be written into the lane to tell its client, who is told by this.
            tracing::warn!(id, %error, "Closing client for whose lane there is no memory");
            self.shared.give_up_lane(seat.parent, id);
            self.shared.end_clients(&[seat.parent], End::LaneEnded);
            return;
        }
        if !self.shared.begin_lane(seat.parent, id, self.index) {
            return;
        }
        let info = ClientInfo {
            id,
            parent: Some(seat.parent),
            address: seat.address.clone(),
            local_address: seat.address.clone(),
            descriptor: seat.doorbell.as_fd().as_raw_fd(),
            is_unix: true,
            last_command: "NULL",
            ..ClientInfo::default()
        };
        let source = source(&info);
        self.counters.connections.add(1);
        let record = self.shared.clients.add(info, Origin::Lane(seat.peer), self.index, now);
        // Whoever makes a lane has authenticated.
        let mut session = Session::new(id, now, true);
        session.state.source = source;
        session.state.uploader = seat.parent;
        let transport = Transport::Lane(Box::new(LaneTransport::new(seat)));
        self.begin(Connection::new(transport, session, record));
    }
}

impl Member {
    /// Returns whether requests are served that come now.
    fn wants_requests(&self) -> bool {
        self.connection.wants_input() && !self.is_queued
    }

    /// Has the client of a lane ring for what the worker waits for; returns whether that is there
    /// already.
    fn arm_lane(&mut self) -> bool {
        let (wants_requests, wants_room) = (self.wants_requests(), self.awaits_room);
        self.connection.lane().is_some_and(|lane| lane.arm(wants_requests, wants_room))
    }
}

/// Notes that the worker looks at the lane of `token` by itself.
pub(super) fn stay_awake(awake: &mut Vec<Token>, member: &mut Member, token: Token) {
    if !member.is_awake {
        member.is_awake = true;
        member.looks = 0;
        awake.push(token);
    }
}
