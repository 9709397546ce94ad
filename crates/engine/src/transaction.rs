//! EXEC: the queue of a MULTI under all its locks at once, as one record. A command that may wait
//! for the system runs without them: before they are taken if it begins the queue, else after they
//! are released, and its reply is put in its place.

use std::ops::Range;

use base::{DatabaseIndex, ShardIndex};
use command::{CommandError, Handler, Queued, SessionState, Transaction};
use keyspace::{Guard, Keyspace, ShardSet, Watches};
use resp::{Protocol, Reply};

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
        if let Err(error) = self.reserve_for_request(transaction.stored_bytes()) {
            return Err(self.abort_transaction(&error));
        }
        let leading = self.leading(&transaction);
        if leading == 0 && !self.lock_queue(&transaction) {
            reply.null_array();
            return Ok(());
        }
        (self.in_transaction, self.is_locked_for_command) = (true, true);
        self.session.state.executing = Some(transaction.size());
        let start = reply.position();
        reply.array(transaction.len());
        self.settle_part(start, reply);
        transaction.queue().take(leading).for_each(|queued| self.run_queued(queued, reply));
        if leading > 0 {
            assert!(self.lock_queue(&transaction), "nothing is watched");
        }
        let mut deferred = DeferredReplies::new(start);
        for queued in transaction.queue().skip(leading) {
            match queued.may_wait() {
                true => deferred.leave(&self.session.state, reply),
                false => self.run_queued(queued, reply),
            }
        }
        self.unlock();
        if !deferred.parts.is_empty() {
            self.run_deferred(&transaction, leading, deferred, reply);
        }
        self.session.state.executing = None;
        self.session.state.recycle(transaction);
        (self.in_transaction, self.is_locked_for_command) = (false, false);
        Ok(())
    }

    /// Returns how many commands that may wait for the system begin the queue, to be run before
    /// anything is locked. Where keys are watched that is none: nothing may run before they are
    /// looked at under the locks of all.
    fn leading(&self, transaction: &Transaction) -> usize {
        match self.session.watches.is_empty() {
            true => transaction.queue().take_while(Queued::may_wait).count(),
            false => 0,
        }
    }

    /// Locks what the queue and the watches touch, and ends the watches; returns false, and holds
    /// nothing, where a watched key has changed.
    fn lock_queue(&mut self, transaction: &Transaction) -> bool {
        self.guard = lock(self.keyspace, transaction, &self.session.watches);
        let Some(guard) = &mut self.guard else { return true };
        let is_unchanged = guard.watches_hold(&self.session.watches, self.execution.now);
        guard.unwatch(&mut self.session.watches);
        match is_unchanged {
            true => guard.begin_atomic(),
            false => self.unlock(),
        }
        is_unchanged
    }

    /// Runs one command of the queue.
    fn run_queued(&mut self, queued: Queued<'_>, reply: &mut Reply<'_>) {
        let Queued { command, request } = queued;
        let start = reply.position();
        self.answer(command, request, &self.keys_of(command, request), reply);
        self.settle_part(start, reply);
    }

    /// Runs the commands that were left, which hold no shard, in the state of the session in which
    /// each would have run, and puts their replies in their places.
    #[cold]
    fn run_deferred(
        &mut self,
        transaction: &Transaction,
        leading: usize,
        mut deferred: DeferredReplies,
        reply: &mut Reply<'_>,
    ) {
        deferred.pieces.push(deferred.piece_start..reply.position());
        let state = &self.session.state;
        let last = (state.database, state.protocol);
        let left = transaction.queue().skip(leading).filter(Queued::may_wait);
        for (Queued { command, request }, part) in left.zip(deferred.parts) {
            self.session.state.database = part.database;
            self.session.state.protocol = part.protocol;
            reply.set_protocol(part.protocol);
            let start = reply.position();
            self.answer(command, request, &[], reply);
            if part.is_silent {
                reply.rewind(start);
            }
            deferred.pieces[part.piece] = start..reply.position();
        }
        (self.session.state.database, self.session.state.protocol) = last;
        reply.set_protocol(last.1);
        reply.arrange(deferred.start, &deferred.pieces);
        self.settled_to = reply.position();
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

/// The commands of a queue that run behind the others, and where the replies go.
struct DeferredReplies {
    /// Where the reply of EXEC begins.
    start: usize,
    /// Where the replies since the last one that is missing begin.
    piece_start: usize,
    /// The replies in their order: those between missing ones, and the missing ones.
    pieces: Vec<Range<usize>>,
    parts: Vec<Part>,
}

/// A command that runs behind the others.
struct Part {
    /// Which piece is its reply.
    piece: usize,
    /// What the session had chosen by the commands before it.
    database: DatabaseIndex,
    protocol: Protocol,
    is_silent: bool,
}

impl DeferredReplies {
    fn new(start: usize) -> DeferredReplies {
        DeferredReplies { start, piece_start: start, pieces: Vec::new(), parts: Vec::new() }
    }

    /// Leaves a command of `session` for later, whose reply would come next.
    #[cold]
    fn leave(&mut self, session: &SessionState, reply: &Reply<'_>) {
        let position = reply.position();
        self.pieces.push(self.piece_start..position);
        self.piece_start = position;
        self.parts.push(Part {
            piece: self.pieces.len(),
            database: session.database,
            protocol: session.protocol,
            is_silent: session.replies.are_silent(),
        });
        self.pieces.push(position..position);
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

/// Returns whether the command may look at any key: it works on all, or its request does not name
/// those that it looks at.
fn concerns_all_keys(Queued { command, request }: Queued<'_>) -> bool {
    matches!(command.handler, Handler::Control(_)) || command.uses_unknown_keys(request)
}
