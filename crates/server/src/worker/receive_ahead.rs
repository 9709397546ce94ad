//! How a worker receives the requests of several ready connections before the first of them has its
//! turn.
//!
//! A client without a pipeline sends one request at a time, which would wait alone for each cache
//! miss. What several clients have sent is decoded together, and the cache asked for what it will
//! access; then each connection has its turn as it would have had it, with what was received in the
//! place of the receive that it would have begun with.
//!
//! *Not here*: what the cache is asked for (`engine/window.rs`).

use resp::{Batch, Decoded};
use sys::poll::Events;

use super::{MAILBOX_TOKEN, Worker};
use crate::connection::{CloseReason, RECEIVE_BYTES, Received, ReceivedAhead, WorkerContext};
use crate::token_table::Token;

/// Connections that are received from before the first has its turn: their requests have a cache
/// miss or two each under way at a time, and a core has room for about so many.
const CONNECTIONS_MAX: usize = 8;
/// What they send is received side by side. Once less is left than a turn would have for its own
/// receive, no more is received ahead.
const BUFFER_BYTES: usize = 2 * RECEIVE_BYTES;
/// A receive of more is decoded in its turn: so many requests overlap their own cache misses, and
/// tables of their arguments would take memory for each connection.
const DECODED_BYTES_MAX: usize = 4 * 1024;
/// What is received for a connection begins on a cache line of its own.
const LINE_BYTES: usize = 64;

/// What was received for connections whose turns are to come, in their order.
#[derive(Default)]
pub(super) struct ReceiveAhead {
    /// Made when it is first used.
    buffer: Box<[u8]>,
    slots: Vec<Slot>,
    /// Those that wait for their turns are `next..end`.
    next: usize,
    end: usize,
}

/// What was received for one connection.
struct Slot {
    token: Token,
    received: Result<Received, CloseReason>,
    /// Where its bytes are in the buffer.
    start: usize,
    batch: Batch,
    /// The requests in the batch are its first.
    decoded: Option<Decoded>,
}

impl Slot {
    fn byte_count(&self) -> usize {
        self.received.map_or(0, Received::count)
    }
}

impl ReceiveAhead {
    /// Returns what was received for the connection of `token`, which has its turn now, if
    /// anything; lends `context` the requests that have been decoded of it.
    #[inline]
    pub fn take<'w>(
        &'w mut self,
        token: Token,
        context: &mut WorkerContext<'w, '_>,
    ) -> Option<ReceivedAhead<'w>> {
        if self.next == self.end {
            return None;
        }
        self.take_of(token, context)
    }

    fn take_of<'w>(
        &'w mut self,
        token: Token,
        context: &mut WorkerContext<'w, '_>,
    ) -> Option<ReceivedAhead<'w>> {
        let waiting = &mut self.slots[self.next..self.end];
        let index = waiting.iter().position(|slot| slot.token == token)?;
        self.next += index + 1;
        let slot = &mut waiting[index];
        let bytes = &mut self.buffer[slot.start..][..slot.byte_count()];
        if slot.decoded.is_some() {
            context.batch = &mut slot.batch;
        }
        Some(ReceivedAhead { received: slot.received, bytes, decoded: slot.decoded })
    }

    /// Makes room for what is received next: what was there has had its turns.
    fn begin(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        }
        (self.next, self.end) = (0, 0);
    }

    /// Returns where the next receive goes, unless less room is left than a turn would have.
    fn room_start(&self) -> Option<usize> {
        let end = self.slots[..self.end].last().map_or(0, |slot| slot.start + slot.byte_count());
        let start = end.next_multiple_of(LINE_BYTES);
        (self.end < CONNECTIONS_MAX && BUFFER_BYTES - start >= RECEIVE_BYTES).then_some(start)
    }

    /// Adds what was received for the connection of `token` at `start`.
    fn add(
        &mut self,
        token: Token,
        start: usize,
        received: Result<Received, CloseReason>,
    ) -> (&mut [u8], &mut Slot) {
        if self.end == self.slots.len() {
            let batch = Batch::new();
            self.slots.push(Slot { token, received, start, batch, decoded: None });
        }
        let slot = &mut self.slots[self.end];
        (slot.token, slot.received, slot.start, slot.decoded) = (token, received, start, None);
        self.end += 1;
        (&mut self.buffer[start..][..slot.byte_count()], slot)
    }
}

impl Worker<'_> {
    /// Receives ahead for the connections of the events from index `first` on. Returns how many
    /// events that concerns: with the next one more may be received.
    ///
    /// An event of another kind ends it, so that nothing but turns of connections is between a
    /// receive and the turn that it is for.
    #[inline]
    pub(super) fn receive_ahead_of_ready(&mut self, events: &Events, first: usize) -> usize {
        let left = events.len() - first;
        if left == 1 { 1 } else { self.receive_of_ready(events, first, left) }
    }

    fn receive_of_ready(&mut self, events: &Events, first: usize, left: usize) -> usize {
        let mut count = 0;
        let mut tokens = [None; CONNECTIONS_MAX];
        for place in tokens.iter_mut().take(left) {
            let ready = events.at(first + count);
            let (token, is_process) = Token::from_bits(ready.token);
            let is_other = ready.token == MAILBOX_TOKEN || is_process || self.is_acceptor(ready);
            if is_other {
                break;
            }
            *place = ready.readable.then_some(token);
            count += 1;
        }
        // One that is queued has its turn later.
        self.receive_ahead(tokens.into_iter().flatten(), false);
        count.max(1)
    }

    /// As [`Worker::receive_ahead_of_ready`], for the first of the `count` connections in front of
    /// the queue.
    #[inline]
    pub(super) fn receive_ahead_of_queued(&mut self, count: usize) -> usize {
        let count = count.min(CONNECTIONS_MAX);
        if count > 1 {
            let mut tokens = [None; CONNECTIONS_MAX];
            for (place, token) in tokens.iter_mut().zip(self.queued.iter().take(count)) {
                *place = Some(*token);
            }
            self.receive_ahead(tokens.into_iter().flatten(), true);
        }
        count
    }

    /// Receives for the connections of `tokens` that would receive now, and asks the cache for what
    /// their requests will access.
    fn receive_ahead(&mut self, tokens: impl Iterator<Item = Token>, are_queued: bool) {
        let ahead = &mut self.ahead;
        ahead.begin();
        let mut databases = [base::DatabaseIndex(0); CONNECTIONS_MAX];
        for token in tokens {
            let Some(start) = ahead.room_start() else { break };
            let Some(member) = self.connections.get_mut(token) else { continue };
            let connection = &mut member.connection;
            if member.is_queued != are_queued || !connection.receives_in_place() {
                continue;
            }
            let room = &mut ahead.buffer[start..][..RECEIVE_BYTES];
            let received = connection.receive_ahead(room, self.counters);
            databases[ahead.end] = connection.database();
            let (bytes, slot) = ahead.add(token, start, received);
            if !bytes.is_empty() && bytes.len() <= DECODED_BYTES_MAX {
                let decoded = connection.decode(bytes, &mut slot.batch, &self.settings);
                slot.decoded = Some(decoded);
            }
        }
        if ahead.end > 1 {
            let slots = ahead.slots[..ahead.end].iter().zip(databases);
            let decoded = slots.filter(|(slot, _)| slot.decoded.is_some());
            let buffer = &ahead.buffer;
            let batches =
                decoded.map(|(slot, database)| (slot.batch.view(&buffer[slot.start..]), database));
            self.shared.runtime.engine().prefetch(batches);
        }
    }
}
