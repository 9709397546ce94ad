//! What other workers ask of the connections of this one.

use std::sync::atomic::Ordering;

use command::Wake;
use keyspace::SessionWakeup;

use super::waiting_connections::ENDED_KEYS_PER_ROUND_MAX;
use super::{Sent, Worker};
use crate::connection::{CloseReason, WorkerContext};
use crate::mailbox::{Message, MonitorLines};
use crate::token_table::Token;

impl Worker<'_> {
    /// Closes the connection of session `id`, without its replies.
    pub(super) fn end(&mut self, id: u64, reason: CloseReason) {
        if let Some(&token) = self.tokens.get(&id) {
            self.close(token, reason);
        }
    }

    /// Ends the wait of session `id`; whoever asks has taken the right to.
    pub(super) fn wake(&mut self, id: u64, wake: Wake) {
        if let Some(&token) = self.tokens.get(&id) {
            self.go_on(token, wake);
        }
    }

    /// Replies to a session whose wait a key has ended, unless another has taken the right to: then
    /// that one's word is on its way, and the reply is the key all the same. Where this round has
    /// ended waits of many keys, it is for the next one.
    pub(super) fn serve_wait(&mut self, served: SessionWakeup) {
        if self.ended_keys >= ENDED_KEYS_PER_ROUND_MAX {
            return self.mailbox.post(Message::Served(served));
        }
        let Some(&token) = self.tokens.get(&served.session) else { return };
        let Some(member) = self.connections.get_mut(token) else { return };
        if member.connection.is_in_wait(served.wait) && member.connection.claim() {
            self.go_on(token, Wake::Served);
        }
    }

    /// Ends the wait of session `id` for an answer, which is there, unless another has taken the
    /// right to, or it waits for something else by now.
    pub(super) fn answer(&mut self, id: u64) {
        let Some(&token) = self.tokens.get(&id) else { return };
        let Some(member) = self.connections.get_mut(token) else { return };
        if member.connection.is_answered() && member.connection.claim() {
            self.go_on(token, Wake::Answered);
        }
    }

    /// Keeps the replies of a connection until their release. Meanwhile it is checked each second,
    /// as they may be too many for too long.
    #[cold]
    pub(super) fn hold(&mut self, token: Token) {
        let Some(member) = self.connections.get_mut(token) else { return };
        if !std::mem::replace(&mut member.is_held, true) {
            self.held.push(token);
            self.held_count += 1;
            self.shared.pending_checks.fetch_add(1, Ordering::Relaxed);
        }
        if !std::mem::replace(&mut member.is_writer, true) {
            self.log_turn.add_writer();
        }
        self.mailbox.hold_replies(true);
        let awaits_release = member.connection.awaits_release(&context!(self));
        if !awaits_release || self.shared.durability.has_failed() {
            // In between the gate has moved on, or the log has failed, and who has released the
            // replies for that may have seen nothing held.
            self.mailbox.post(Message::Released);
        }
        self.note_held();
    }

    /// Notes that the replies of a connection are not held any more.
    fn count_released(&mut self) {
        self.held_count -= 1;
        self.shared.pending_checks.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes that a connection has gone, whose replies were held if it `was_held`. Those that come
    /// and go while the log stands still leave no more in `held` than there are others.
    pub(super) fn forget_held(&mut self, was_held: bool) {
        const GONE_MAX: usize = 64;
        if !was_held {
            return;
        }
        self.count_released();
        if self.held.len() > 2 * self.held_count + GONE_MAX {
            let connections = &mut self.connections;
            self.held.retain(|token| connections.get_mut(*token).is_some());
        }
    }

    /// Sends the replies that were held and may leave, and gives their connections a turn; the
    /// others are held again.
    pub(super) fn send_released(&mut self) {
        // Before their next turns, which may write what is to be released in turn.
        for token in self.flush_held() {
            let Some(member) = self.connections.get_mut(token) else { continue };
            // A socket tells what has come meanwhile by an event of its own; what is polled was not
            // polled for requests.
            if member.connection.has_more() || member.connection.transport().is_polled() {
                self.queue_turn(token);
            }
        }
        self.end_log_waits();
    }

    /// Sends the replies that were held and may leave, and returns whose they were; the others are
    /// held again.
    pub(super) fn flush_held(&mut self) -> Vec<Token> {
        self.mailbox.hold_replies(false);
        let mut held = std::mem::take(&mut self.held);
        held.retain(|&token| {
            // One that is gone has been counted then.
            let Some(member) = self.connections.get_mut(token) else { return false };
            member.is_held = false;
            self.count_released();
            self.send(token, Sent::ForRelease);
            self.connections.get_mut(token).is_some_and(|member| !member.is_held)
        });
        held
    }

    /// Has the connection of `token`, which has begun to wait for the log, go on when that is
    /// durable; it is made so now.
    pub(super) fn await_durable(&mut self, token: Token) {
        self.awaiting_log.insert(token.to_bits());
        self.mailbox.hold_replies(true);
        self.shared.durability.want_sync();
        // The log may have moved on in between, and its thread have seen nobody wait.
        self.mailbox.post(Message::Released);
    }

    /// Ends the waits for what is durable by now.
    pub(super) fn end_log_waits(&mut self) {
        if self.awaiting_log.is_empty() {
            return;
        }
        self.mailbox.hold_replies(true);
        let durability = &self.shared.durability;
        let (has_failed, durable) = (durability.has_failed(), durability.last_durable_lsn());
        for bits in self.awaiting_log.clone() {
            let token = Token::from_bits(bits).0;
            let Some(member) = self.connections.get_mut(token) else { continue };
            let Some(lsn) = member.connection.awaited_lsn() else {
                self.awaiting_log.remove(&bits);
                continue;
            };
            if durable >= lsn && member.connection.claim() {
                self.awaiting_log.remove(&bits);
                self.go_on(token, Wake::Durable);
            } else if has_failed {
                // Nobody will ever know.
                self.close(token, CloseReason::LogFailed);
            }
        }
    }

    /// Shows the monitors what has run, and closes those that read too slowly.
    pub(super) fn show_monitors(&mut self, shown: &MonitorLines) {
        for token in self.monitors.clone() {
            let Some(member) = self.connections.get_mut(token) else { continue };
            let taken = match shown.is_cut {
                true => Err(CloseReason::OutputLimit),
                false => member.connection.show_lines(&shown.lines, &mut context!(self)),
            };
            match taken {
                Ok(()) => self.flush_later(token),
                Err(end) => self.close(token, end),
            }
        }
    }

    /// Gives a connection a turn in the next round, if it has none to come.
    pub(super) fn queue_turn(&mut self, token: Token) {
        let Some(member) = self.connections.get_mut(token) else { return };
        if !member.is_queued {
            member.is_queued = true;
            self.queued.push_back(token);
        }
    }

    /// Sends a connection's replies at the end of the round, or when there is room.
    pub(super) fn flush_later(&mut self, token: Token) {
        let Some(member) = self.connections.get_mut(token) else { return };
        if member.awaits_room {
            self.unreported_bytes += member.connection.count_memory();
        } else if !member.is_unflushed && member.connection.wants_flush() {
            member.is_unflushed = true;
            self.unflushed.push(token);
        }
    }
}

/// Notes in `monitors` whether the connection of `token` is one.
pub(super) fn note_monitor(monitors: &mut Vec<Token>, token: Token, is_monitor: bool) {
    monitors.retain(|other| *other != token);
    if is_monitor {
        monitors.push(token);
    }
}
