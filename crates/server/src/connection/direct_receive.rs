//! How a long value is received straight into its place in the arena.
//!
//! Once the head of a request says that a long argument follows which becomes a value as it is, a
//! block is reserved for it, and what is still to come goes there and not through the input. The
//! request is then decoded as if the argument were empty, and run with the argument where it lies.
//! Where that cannot be, the value is collected as any other input and copied by the command.
//! docs/decisions/0006-large-values.md says when memory is set aside, and what that is worth.

use keyspace::ReservedBlock;

use super::{CloseReason, Connection, WorkerContext, count_received};

/// A shorter value is copied: it mostly comes with one receive, and several do in a pipeline, where
/// each would take one of its own.
const VALUE_BYTES_MIN: usize = 32 * 1024;
/// A value of this size takes a second receive anyway, so that the first one may as well bring...
const LONG_BYTES_MIN: usize = 64 * 1024;
/// ...the head of its request and little of the value, where one is likely to come.
pub(super) const HEAD_BYTES: usize = 4096;
/// A block of this size is set aside as soon as its value is announced, as the room in an input
/// buffer is. Of a longer value...
const AT_ONCE_BYTES_MAX: usize = 1 << 20;
/// ...this part has to come first: who makes others' values go pays for it.
const ARRIVED_SHARE: usize = 32;
/// Bytes behind a value that are received with its end: the rest of the request, and the head of
/// the next one, whose value is to go to its own place.
const BEHIND_BYTES: usize = 4096;
/// What has to come behind a value at least.
const LINE_END_BYTES: usize = 2;

/// The value that a connection receives into its place.
#[derive(Debug, Default)]
pub(super) struct DirectReceive {
    block: Option<Box<ReservedBlock>>,
    /// There was no block for the argument awaited.
    is_refused: bool,
    /// The last request that one receive did not bring had a long value and came alone, as the next
    /// one may.
    is_likely: bool,
}

impl DirectReceive {
    /// Returns whether there is a value, complete or not.
    #[inline]
    pub fn is_there(&self) -> bool {
        self.block.is_some()
    }

    /// Returns whether there is a value of which bytes are still to come.
    #[inline]
    pub fn is_partial(&self) -> bool {
        self.missing_bytes() > 0
    }

    /// Returns whether the next request may have a long value, of which little is to be received
    /// with the head.
    #[inline]
    pub fn is_likely(&self) -> bool {
        self.is_likely
    }

    /// Notes what the first receive of a request has brought, and whether that filled its room.
    #[inline]
    pub fn note_first(&mut self, is_full: bool) {
        self.is_likely = match &self.block {
            Some(_) => self.value_bytes() >= LONG_BYTES_MIN,
            // Where room was left, less room has cost nothing.
            None => self.is_likely && !is_full,
        };
    }

    /// Returns the bytes of the value that have come.
    #[inline]
    pub fn filled_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.filled_bytes())
    }

    /// Returns the bytes of the value that are to come.
    #[inline]
    pub fn missing_bytes(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.missing_bytes())
    }

    /// Returns the size of the value.
    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.filled_bytes() + self.missing_bytes()
    }

    /// Notes that a request has been consumed: what was said of its arguments is void.
    #[inline]
    pub fn note_consumed(&mut self) {
        self.is_refused = false;
    }
}

impl Connection {
    /// Looks whether the unfinished request `rest` has a value that can be received into its place,
    /// and moves there what has come of it. Returns how many bytes of `rest` are to be kept as
    /// input.
    pub(super) fn receive_directly(
        &mut self,
        rest: &[u8],
        context: &mut WorkerContext<'_, '_>,
    ) -> usize {
        if self.input_state.has_requests
            || self.is_closing
            || self.wait_reason.is_some()
            || self.direct_receive.is_refused
        {
            return rest.len();
        }
        let engine = context.shared.runtime.engine();
        let Some(awaited) = self.decoder.awaited(rest) else { return rest.len() };
        let (head_bytes, bytes) = (awaited.head_bytes, awaited.bytes);
        let arrived = rest.len() - head_bytes;
        // With half of its line end the value is as well input.
        if bytes < VALUE_BYTES_MIN
            // As input it ends its client before it is whole, however fast it comes.
            || head_bytes + bytes + LINE_END_BYTES > context.settings.clients.query_bytes_max
            || arrived > bytes
            || !engine.may_reserve_for(&self.session, &awaited, context.execution)
        {
            return rest.len();
        }
        let first = bytes / ARRIVED_SHARE;
        if bytes > AT_ONCE_BYTES_MAX && arrived < first {
            // No more than that is to be copied.
            self.input_state.wanted_bytes = first - arrived;
            return rest.len();
        }
        let Some(mut block) = engine.reserve_for(awaited.before, bytes, context.execution) else {
            self.direct_receive.is_refused = true;
            return rest.len();
        };
        block.append(&rest[head_bytes..]);
        self.decoder.take_out();
        self.direct_receive.block = Some(block);
        // The rest of the value is not to come into the input.
        self.input_state.wanted_bytes = LINE_END_BYTES;
        // Until it turns out to be the first of its receive: of values that follow one another,
        // each head but the first comes behind a value, and the first receive need not be small.
        self.direct_receive.is_likely = false;
        context.counters.direct_values.add(1);
        head_bytes
    }

    /// Receives more of a value into its place, and executes once it and what follows are there.
    pub(super) fn receive_value(
        &mut self,
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let block = self.direct_receive.block.as_mut().expect("a value is incoming");
        let before = block.filled_bytes();
        let room = &mut context.receive[..BEHIND_BYTES];
        let behind = self.transport.receive_value(block, room, context.counters)?;
        let count = block.filled_bytes() - before + behind.len();
        count_received(count, context.counters);
        self.note_received(count, behind.len() == BEHIND_BYTES);
        if behind.is_empty() {
            return self.check_input(context);
        }
        self.input.extend_from_slice(&context.receive[behind]);
        self.execute_input(context)
    }

    /// Executes the request of the context's batch whose value has been received into its place.
    pub(super) fn execute_received(
        &mut self,
        buffer: &[u8],
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let block = self.direct_receive.block.take().expect("the request has a value of its own");
        let Some(value) = block.hold() else {
            // So many replies wait to be sent from where they lie that this value is copied.
            return self.execute_requests(buffer, block.value(), context);
        };
        self.session.offer(block);
        let executed = self.execute_requests(buffer, value.as_ref(), context);
        // The hold goes first: the block would have to wait for it.
        drop(value);
        self.session.withdraw();
        executed
    }
}
