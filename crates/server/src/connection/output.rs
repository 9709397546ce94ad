//! How a connection's replies leave, and how many of them may wait.

use arena::pins::PIN_SLOTS;
use engine::Release;
use resp::Output;
use sys::process::ProcessHandle;

use super::{CloseReason, Connection, Flushed, WorkerContext};
use crate::transport::Sent;

/// Replies that `client-output-buffer-limit` does not count, in bytes: as in Redis, whose clients
/// have a buffer of that size, and a list of what it does not hold.
const REPLY_BUFFER_BYTES: usize = 16 * 1024;
/// Unsent output beyond it before authentication, in bytes.
const UNAUTHENTICATED_OUTPUT_BYTES_MAX: usize = 48 * 1024;
/// Replies of one call of the engine that end the session where its output has no hard limit.
const UNLIMITED_OUTPUT_BYTES_PER_CALL_MAX: usize = 4 << 30;
/// Values that the unsent replies of one connection may refer to.
const REFERENCES_KEPT_MAX: usize = 64;
/// How many values the process may hold before unsent replies may refer to none: what is left is
/// for the requests that are executed.
const HELD_VALUES_SHARED: usize = PIN_SLOTS / 2;

impl Connection {
    /// Sends what has not been sent, once.
    pub fn flush(&mut self, context: &mut WorkerContext<'_, '_>) -> Flushed {
        self.is_held = self.awaits_release(context);
        if self.is_held {
            if context.shared.durability.has_failed() {
                return Flushed::Ended(CloseReason::LogFailed);
            }
            self.report_output();
            return self.check_output(context).map_or_else(Flushed::Ended, |()| Flushed::Held);
        }
        let unsent = match self.send(context) {
            Ok(true) => Flushed::Further,
            Ok(false) => Flushed::Partly,
            Err(end) => return Flushed::Ended(end),
        };
        if self.has_output() {
            self.report_output();
            return self.check_output(context).map_or_else(Flushed::Ended, |()| unsent);
        }
        self.over_soft_since = None;
        self.release = Release::default();
        self.record.set_output(0, 0);
        context.buffers.give(self.output.take_buffer());
        if self.is_closing { Flushed::Ended(CloseReason::Orderly) } else { Flushed::All }
    }

    /// Tells others of the replies that wait.
    fn report_output(&self) {
        let (list_len, list_bytes) = self.output.beyond(REPLY_BUFFER_BYTES);
        self.record.set_output_list(list_len, list_bytes);
        self.record.set_output(self.unsent_bytes(), self.output.memory_bytes());
    }

    /// Returns whether there are replies that may not leave yet: records that they tell of are to
    /// be durable first.
    #[inline]
    pub fn awaits_release(&self, context: &WorkerContext<'_, '_>) -> bool {
        self.has_output() && !context.shared.runtime.engine().gate().is_due(self.release)
    }

    /// Sends once; returns whether the transport took all that was offered, which is not so where
    /// the replies wait for their release.
    pub(super) fn send(
        &mut self,
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<bool, CloseReason> {
        if !self.has_output() {
            return Ok(true);
        }
        if self.awaits_release(context) {
            return Ok(false);
        }
        context.counters.writes.add(1);
        self.record.note_send(self.unsent_bytes());
        let sent =
            self.transport.send(&mut self.output, &self.outgoing_descriptors, context.counters)?;
        let (Sent::All(bytes) | Sent::Partly(bytes)) = sent;
        context.counters.output_bytes.add(bytes as u64);
        if bytes > 0 && !self.outgoing_descriptors.is_empty() {
            self.forget_descriptors(context);
        }
        Ok(matches!(sent, Sent::All(_)))
    }

    /// Takes the descriptors that a command has left for this session.
    #[cold]
    pub(super) fn take_descriptors(&mut self, context: &WorkerContext<'_, '_>) {
        self.outgoing_descriptors.extend(context.shared.in_flight.take(self.id()));
        if !self.outgoing_descriptors.is_empty()
            && self.process.is_none()
            && let Some(stream) = self.transport.descriptor_stream()
        {
            // Without it the session ends with its connection alone.
            self.process = ProcessHandle::of_peer(stream).ok();
        }
    }

    /// Notes that the descriptors have left with the first byte.
    #[cold]
    fn forget_descriptors(&mut self, context: &WorkerContext<'_, '_>) {
        self.outgoing_descriptors.clear();
        self.has_unreceived = true;
        if let Some(stream) = self.transport.descriptor_stream() {
            context.shared.in_flight.note_sent(self.id(), stream);
        }
    }

    /// Returns whether descriptors of its keep its replies waiting: the kernel has no room for them
    /// now, and does not tell when it has.
    pub fn awaits_descriptors(&self) -> bool {
        !self.outgoing_descriptors.is_empty()
    }

    /// Makes sure that there is a buffer for replies.
    #[inline]
    pub(super) fn provide_output(&mut self, context: &mut WorkerContext<'_, '_>) {
        if !self.output.has_buffer() {
            self.output = Output::with_buffer(context.buffers.take());
            self.record.set_output(0, self.output.memory_bytes());
        }
    }

    /// Returns how much output may be unsent after one call of the engine: one request can ask for
    /// one value a million times.
    pub(super) fn output_bytes_max(&self, context: &WorkerContext<'_, '_>) -> usize {
        match self.hard_output_bytes(context) {
            0 => self.output.len() + UNLIMITED_OUTPUT_BYTES_PER_CALL_MAX,
            bytes => {
                usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(REPLY_BUFFER_BYTES)
            }
        }
    }

    /// Returns how much of it may be copies in private memory: under a memory limit what that
    /// leaves, and what it may be passed by.
    pub(super) fn own_output_bytes_max(&self, context: &WorkerContext<'_, '_>) -> usize {
        // Of what is unsent this much is known to the keyspace: not yet the replies of this round.
        let unsent = self.output.len() - self.output.referenced_bytes();
        let counted = unsent.min(self.counted_bytes);
        let most = context.shared.keyspace().reply_bytes_max(counted as u64);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Returns the hard limit of what waits beyond the reply buffer, in bytes; 0 is none.
    fn hard_output_bytes(&self, context: &WorkerContext<'_, '_>) -> u64 {
        match self.session.state.authenticated {
            true => context.settings.clients.output_limit.hard_bytes,
            false => UNAUTHENTICATED_OUTPUT_BYTES_MAX as u64,
        }
    }

    pub(super) fn check_output(
        &mut self,
        context: &WorkerContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let (_, list_bytes) = self.output.beyond(REPLY_BUFFER_BYTES);
        let reaches = |limit: u64| limit != 0 && list_bytes as u64 >= limit;
        if reaches(self.hard_output_bytes(context)) {
            return Err(CloseReason::OutputLimit);
        }
        self.over_soft_since = reaches(context.settings.clients.output_limit.soft_bytes)
            .then(|| self.over_soft_since.unwrap_or(context.execution.now));
        Ok(())
    }

    /// Lets go of values that lie elsewhere where replies refer to more of them than the session's
    /// share: a peer that does not read would hold all that the process can hold. Its replies get
    /// copies, which are made while no shard is held.
    #[cold]
    pub(super) fn share_references(
        &mut self,
        context: &mut WorkerContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let is_short = context.shared.keyspace().arena().held_count() > HELD_VALUES_SHARED;
        let kept = if is_short { 0 } else { REFERENCES_KEPT_MAX };
        if self.output.reference_count() <= kept {
            return Ok(());
        }
        // What the kernel takes now need not be copied.
        self.send(context)?;
        self.output.limit(self.output_bytes_max(context), self.own_output_bytes_max(context));
        if self.output.own_references(kept) { Ok(()) } else { Err(CloseReason::OutputLimit) }
    }
}
