//! What memory a connection takes, and whether that is more than clients may have together.

use super::{CloseReason, Connection, WorkerContext};

/// A client that takes this part of `maxmemory-clients`, and as much as the second says, has all
/// clients added up whenever it takes more.
const CHECKED_SHARE: u64 = 64;
const CHECKED_BYTES_MIN: u64 = 64 * 1024;

impl Connection {
    /// Returns by how much the connection's private memory has grown since the last call.
    #[inline]
    pub fn count_memory(&mut self) -> isize {
        let bytes = self.memory_bytes();
        let growth = bytes as isize - self.counted_bytes as isize;
        self.counted_bytes = bytes;
        // What its replies refer to lies in the keyspace and counts there. So does the place of a
        // value that it sends, or has copied ahead, what it watches, what it waits for and what it
        // has another server take.
        self.record.set_memory(bytes, self.elsewhere_bytes());
        growth
    }

    /// Returns how much private memory was counted for the connection.
    pub fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let buffers = self.input.capacity() + self.output.memory_bytes();
        size_of::<Connection>()
            + buffers
            + self.lent_bytes
            + self.held.capacity()
            + self.decoder.memory_bytes()
            + self.session.memory_bytes()
            + self.transport.memory_bytes()
    }

    /// Returns the bytes that count in the keyspace, and that nobody but this client is in the way
    /// of the end of.
    fn elsewhere_bytes(&self) -> usize {
        let coming = self.direct_receive.value_bytes() + self.session.partial_copy_bytes();
        let registered = self.session.watch_bytes() + self.session.wait_bytes();
        self.output.referenced_bytes() + coming + registered + self.session.migrating_bytes()
    }

    /// Ends the session, or others that take more, where clients take more than
    /// `maxmemory-clients`: before a request is executed, as after it, since a request is what may
    /// take much at once.
    #[inline]
    pub(super) fn check_share(&self, context: &WorkerContext<'_, '_>) -> Result<(), CloseReason> {
        match context.settings.derived.clients_bytes_max {
            None => Ok(()),
            Some(limit) => self.check_share_of(limit, context),
        }
    }

    #[cold]
    fn check_share_of(
        &self,
        limit: u64,
        context: &WorkerContext<'_, '_>,
    ) -> Result<(), CloseReason> {
        let (bytes, elsewhere) = (self.memory_bytes(), self.elsewhere_bytes());
        self.record.set_memory(bytes, elsewhere);
        // The service thread adds up those that take little.
        if ((bytes + elsewhere) as u64) < (limit / CHECKED_SHARE).max(CHECKED_BYTES_MIN) {
            return Ok(());
        }
        let mut surplus = context.shared.clients.surplus(limit);
        let count = surplus.len();
        surplus.retain(|&id| id != self.id());
        let is_own = surplus.len() < count;
        context.shared.end_clients(&surplus, CloseReason::Evicted);
        if is_own { Err(CloseReason::Evicted) } else { Ok(()) }
    }
}
