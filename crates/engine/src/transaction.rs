//! EXEC: the queue of a MULTI under all its locks at once, as one record.

use base::ShardIndex;
use command::{CommandError, Handler, Queued, Transaction};
use keyspace::{Guard, Keyspace, ShardSet, Watches};
use resp::Reply;

use crate::run::Runner;

impl Runner<'_, '_, '_, '_> {
    /// Runs the queue of the session's transaction, unless a watched key has changed, and writes
    /// the reply of EXEC. The transaction and the watches end either way.
    ///
    /// # Errors
    /// When a request was refused while it was queued, or there is no room.
    pub fn execute_transaction(&mut self, reply: &mut Reply<'_>) -> Result<(), CommandError> {
        let transaction = self.session.state.transaction.take().expect("EXEC runs inside MULTI");
        if transaction.is_broken {
            self.unlock();
            self.keyspace.unwatch(&mut self.session.watches);
            return Err(CommandError::TRANSACTION_BROKEN);
        }
        if let Err(error) = self.make_room_ahead(transaction.argument_bytes()) {
            return Err(self.abort_transaction(&error));
        }
        self.guard = lock(self.keyspace, &transaction, &self.session.watches);
        if let Some(guard) = &mut self.guard {
            let unchanged = guard.watches_hold(&self.session.watches, self.tick.now);
            guard.unwatch(&mut self.session.watches);
            if !unchanged {
                self.unlock();
                reply.null_array();
                return Ok(());
            }
            guard.begin_atomic();
        }
        self.in_transaction = true;
        self.session.state.executing = Some(transaction.size());
        let start = reply.position();
        reply.array(transaction.len());
        self.settle_part(start, reply);
        for queued in transaction.queue() {
            let Queued { command, request } = queued;
            let start = reply.position();
            self.answer(command, request, &self.keys_of(command, request), reply);
            self.settle_part(start, reply);
        }
        self.session.state.executing = None;
        self.session.state.recycle(transaction);
        self.in_transaction = false;
        self.unlock();
        Ok(())
    }

    /// Ends the transaction because EXEC itself was refused with `error`, and returns what it is
    /// refused with then.
    #[cold]
    pub fn abort_transaction(&mut self, error: &CommandError) -> CommandError {
        self.unlock();
        self.session.state.transaction = None;
        self.keyspace.unwatch(&mut self.session.watches);
        let text = error.text();
        let reason = text.strip_prefix(b"ERR ").unwrap_or(&text);
        let prefix = b"EXECABORT Transaction discarded because of: ";
        CommandError::text_of(&[prefix, reason])
    }
}

/// Locks what the queue and the watches touch; `None` where that is nothing.
fn lock<'k>(
    keyspace: &'k Keyspace,
    transaction: &Transaction,
    watches: &Watches,
) -> Option<Guard<'k>> {
    if transaction.queue().any(concerns_all_keys) {
        return Some(keyspace.lock_all());
    }
    let mut shards = ShardSet::new();
    watches.shards().for_each(|shard| shards.insert(shard));
    for queued in transaction.queue() {
        let Queued { command, request } = queued;
        let mut is_anywhere = matches!(command.handler, Handler::Read(_) | Handler::Write(_));
        for position in command.key_positions(request) {
            shards.insert(keyspace.hasher().key(request.at(position)).shard);
            is_anywhere = false;
        }
        // A request that counts its keys wrong is refused under any guard.
        if is_anywhere {
            shards.insert(ShardIndex(0));
        }
    }
    (!shards.is_empty()).then(|| keyspace.lock_set(&shards))
}

fn concerns_all_keys(queued: Queued<'_>) -> bool {
    matches!(queued.command.handler, Handler::Control(_))
}
