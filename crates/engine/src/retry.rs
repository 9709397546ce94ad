//! Runs one command until it is done. A handler that needs something returns it; this file drops
//! the locks, provides it, and runs the handler again from the start.
//!
//! Every command passes here, whatever its handler's kind. Each round of the loop provides
//! something, and there are [`RETRIES_MAX`] rounds at most. Within EXEC the locks of the whole
//! queue are held and nothing can be provided: a command that asks is refused.

use std::ops::ControlFlow;

use base::{Key, ShardIndex};
use command::{Args, Command, CommandError, Handler, Need, PartialUploadCopy, Unfinished};
use keyspace::{COPIED_UNLOCKED_BYTES_MIN, Keyspace, ShardSet, Spared, SweepContext};
use resp::Reply;

use crate::engine::SessionStatus;
use crate::run::Runner;

/// How often a command is run again, each time after something was provided.
const RETRIES_MAX: u32 = 16;
/// How often a command may ask for further shards before it gets all of them.
const SHARD_RETRIES_MAX: u32 = 4;
/// Requests on several keys that bring less than this, and waits that take less, may pass the
/// memory limit by it; what they take is repaid by the next command.
pub(crate) const RESERVED_BYTES_MIN: usize = 64 * 1024;

/// Within EXEC no shard can be locked but those that its queue declares.
const NOT_LOCKED: CommandError = CommandError::Fixed(
    "ERR inside a transaction a command may only use keys that the queued requests declare",
);

/// What the earlier attempts of a command leave for the next one. Kept in the runner, and all but
/// unread by a command that succeeds at once.
#[derive(Default)]
pub(crate) struct Retries {
    /// How many there were.
    pub count: u32,
    shard_retries: u32,
    /// What takes long has been prepared for, and is not asked for again: a value that others
    /// change after it was copied while nothing was locked is copied under the locks. Nor is what
    /// the command can do without, once there is none.
    pub is_prepared: bool,
    /// The command is run again whether it gets what it has asked for or not.
    is_optional: bool,
    /// A copy is on offer that is of no use after the command.
    has_copy: bool,
    /// The shards that were locked for the command, once it has asked for some.
    shards: Option<Box<ShardSet>>,
}

impl Runner<'_, '_, '_, '_> {
    /// Runs a command until it is done, refused, or waits, and writes its reply. Always inlined:
    /// every command passes here.
    #[inline(always)]
    pub(crate) fn run_to_end(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) {
        let start = reply.position();
        if let Err(unfinished) = self.run_once(command, args, reply) {
            self.finish(unfinished, command, args, start, reply);
        }
    }

    #[inline(always)]
    fn run_once(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Unfinished> {
        match command.handler {
            Handler::Read(handler) => self.read(command, handler, args, reply),
            Handler::Write(handler) => self.write(command, handler, args, reply),
            Handler::Session(_) | Handler::Control(_) => self.beyond_keys(command, args, reply),
            Handler::Container => panic!("the arity of {} asks for a subcommand", command.name),
        }
    }

    /// Runs a command until it is done that has answered `unfinished`, and whose reply begins at
    /// `start`. Not one loop with the first attempt: that would carry along what only this needs.
    #[cold]
    fn finish(
        &mut self,
        mut unfinished: Unfinished,
        command: &'static Command,
        args: Args<'_>,
        start: usize,
        reply: &mut Reply<'_>,
    ) {
        loop {
            reply.rewind(start);
            if self.act_on(unfinished, command, args, reply).is_break() {
                break;
            }
            match self.run_once(command, args, reply) {
                Ok(()) => break,
                Err(again) => unfinished = again,
            }
        }
        if self.retries.count > 0 {
            self.end_retries();
        }
        if self.status != SessionStatus::Blocked
            && let Some(mut migration) = self.session.state.migration.take()
        {
            migration.abandon(self.keyspace);
        }
    }

    /// Acts on the answer of a command that is not done. Breaks where it is not to be run again.
    fn act_on(
        &mut self,
        unfinished: Unfinished,
        command: &'static Command,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> ControlFlow<()> {
        let result = match unfinished {
            Unfinished::Again(need) => self.provide(need, command, args, reply),
            Unfinished::AgainAnyway(need) => {
                self.retries.is_optional = true;
                self.provide(need, command, args, reply)
            }
            Unfinished::Refused(error) => ControlFlow::Break(Err(error)),
            Unfinished::Wait(wait) => self.wait_for(command, args, wait, reply),
        };
        result.map_break(|result| {
            if let Err(error) = result {
                self.execution.command_stats.count_failure(command, &error);
                error.write(reply);
            }
        })
    }

    /// Provides what a command has asked for. Breaks where the command is not to be run again.
    pub(crate) fn provide(
        &mut self,
        need: Need,
        command: &Command,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> ControlFlow<Result<(), CommandError>> {
        if self.in_transaction {
            let error = match need {
                Need::Shards(_) => NOT_LOCKED,
                _ => CommandError::OUT_OF_MEMORY,
            };
            return ControlFlow::Break(Err(error));
        }
        if self.retries.count == RETRIES_MAX {
            return ControlFlow::Break(Err(CommandError::OUT_OF_MEMORY));
        }
        let key = args.keys().first();
        // Only of this need: the next one may be one that the command cannot do without.
        let is_optional = std::mem::take(&mut self.retries.is_optional);
        let provided = match need {
            Need::Room(need) => {
                let shard = key.map_or(ShardIndex(0), |key| key.shard);
                let need = need.after(self.retries.count);
                self.sparing(command, args, |keyspace, context| {
                    keyspace.reserve(need, shard, context).ok()
                })
            }
            Need::Reserve(bytes) => self.sparing(command, args, |keyspace, context| {
                keyspace.reserve_private(bytes, context).ok()
            }),
            Need::TimeAlone => {
                self.retries.is_prepared = true;
                self.command_timer.time_alone_from_now(self.execution);
                Ok(())
            }
            Need::Owned => {
                self.retries.is_prepared = true;
                self.materialize_unlocked(command, args)
            }
            Need::Copied { offset, length, is_copied } => {
                (self.retries.is_prepared, self.retries.has_copy) = (true, true);
                self.offer_copy(command, args, (offset, length), is_copied)
            }
            Need::PartialUploadCopy(copy) => {
                let key = key.expect("an upload is to be stored at a key");
                let copied = self.extend_partial_copy(key, *copy);
                return ControlFlow::Break(copied.map(|copied| reply.integer(copied as i64)));
            }
            Need::Shards(further) => {
                self.add_shards(args, &further);
                Ok(())
            }
            Need::OwnWorker => unreachable!("the session's worker runs the request"),
        };
        self.retries.count += 1;
        if is_optional {
            // The last round is one that asks for nothing.
            self.retries.is_prepared |= provided.is_err() || self.retries.count == RETRIES_MAX;
        } else if let Err(error) = provided {
            return ControlFlow::Break(Err(error));
        }
        if let Some(shards) = self.retries.shards.take() {
            self.lock_shards_for_command(&shards);
            self.retries.shards = Some(shards);
        }
        ControlFlow::Continue(())
    }

    /// Adds `further` shards to those that the command is run under.
    fn add_shards(&mut self, args: Args<'_>, further: &ShardSet) {
        let shard_count = self.keyspace.shard_count();
        let Retries { shards, shard_retries, .. } = &mut self.retries;
        let shards = shards.get_or_insert_default();
        *shard_retries += 1;
        if *shard_retries > SHARD_RETRIES_MAX {
            **shards = ShardSet::first(shard_count);
            return;
        }
        args.keys().iter().for_each(|key| shards.insert(key.shard));
        further.iter().for_each(|shard| shards.insert(shard));
    }

    /// Ends what was provided for one command only.
    fn end_retries(&mut self) {
        let retries = std::mem::take(&mut self.retries);
        if retries.has_copy {
            self.session.withdraw();
        }
        if retries.shards.is_some() {
            self.is_locked_for_command = false;
            self.unlock();
        }
    }

    /// Makes room for a change that stores about `bytes` and may not evict while it runs.
    pub fn reserve_for_request(&mut self, bytes: usize) -> Result<(), CommandError> {
        if self.keyspace.maxmemory() == 0 || bytes < RESERVED_BYTES_MIN {
            return Ok(());
        }
        self.unlock();
        // Nothing has been looked at yet, so that any key may go, as before another command.
        let mut context = SweepContext::new(self.execution.now, &mut self.execution.random);
        let made = self.keyspace.reserve_private(bytes as u64, &mut context);
        made.map_err(|_| CommandError::OUT_OF_MEMORY)
    }

    /// Has `make` make room for a command between two of its runs, while nothing is held. The keys
    /// of the command stay, or it would go on as if they had never been there; where there is no
    /// other room, those go whose values it replaces without a look.
    #[cold]
    fn sparing<R>(
        &mut self,
        command: &Command,
        args: Args<'_>,
        make: impl Fn(&Keyspace, &mut SweepContext<'_>) -> Option<R>,
    ) -> Result<R, CommandError> {
        self.unlock();
        self.command_timer.time_alone_from_now(self.execution);
        let (keyspace, database, now) =
            (self.keyspace, self.session.state.database, self.execution.now);
        let mut make_but_of = |mut keys: Vec<Key<'_>>| {
            let spared = Spared::of(database, &mut keys);
            make(keyspace, &mut SweepContext::new(now, &mut self.execution.random).sparing(spared))
        };
        let keys = args.keys();
        let overwrites = || keys.iter().zip(command.overwrites(args.request()));
        let mut made = make_but_of(keys.to_vec());
        if made.is_none() && overwrites().any(|(_, is_overwritten)| is_overwritten) {
            let others = overwrites().filter(|(_, is_overwritten)| !is_overwritten);
            made = make_but_of(others.map(|(key, _)| *key).collect());
        }
        made.ok_or(CommandError::OUT_OF_MEMORY)
    }

    /// Copies the upload of this offset and length for the key of a command while nothing is held,
    /// and has the session offer the copy; what of it `is_copied` in advance is not copied again.
    #[cold]
    fn offer_copy(
        &mut self,
        command: &Command,
        args: Args<'_>,
        (offset, length): (u64, u64),
        is_copied: bool,
    ) -> Result<(), CommandError> {
        let key = args.keys().first().expect("an upload is stored at a key");
        self.unlock();
        self.command_timer.time_alone_from_now(self.execution);
        let claim = self.uploads().claim(offset, length)?;
        let partial = self.session.take_partial_copy(&claim, key).filter(|_| is_copied);
        let copy = partial.map(|mut block| {
            block.copy_upload(&claim, length);
            block
        });
        let copy = match copy {
            Some(copy) => copy,
            None => self.sparing(command, args, |keyspace, context| {
                keyspace.copy_upload(key, &claim, context)
            })?,
        };
        self.session.offer(copy);
        Ok(())
    }

    /// Copies `part` of the upload of this offset and length, which is to be the value of `key`,
    /// while nothing is held; returns how many of its bytes are copied then. A part that begins the
    /// value begins the copy; one that does not go on with it, or finds no room, ends it, as any
    /// other request does. Nothing is lost by that but time: a commit copies what is not there.
    #[cold]
    fn extend_partial_copy(
        &mut self,
        key: &Key<'_>,
        PartialUploadCopy { offset, length, part }: PartialUploadCopy,
    ) -> Result<u64, CommandError> {
        self.unlock();
        self.command_timer.time_alone_from_now(self.execution);
        let claim = self.uploads().claim(offset, length)?;
        let before = self.session.take_partial_copy(&claim, key);
        let block = if part.is_empty() {
            None
        } else if part.start > 0 {
            before.filter(|block| block.filled_bytes() as u64 == part.start)
        } else if length < COPIED_UNLOCKED_BYTES_MIN {
            None
        } else {
            drop(before);
            let mut context = SweepContext::new(self.execution.now, &mut self.execution.random);
            let (key_length, length) = (key.bytes.len(), length as usize);
            self.keyspace.reserve_block(key.shard, key_length, length, &mut context)
        };
        let Some(mut block) = block else { return Ok(0) };
        let copied = block.copy_upload(&claim, part.end);
        self.session.keep_partial_copy(block);
        Ok(copied)
    }

    /// Owns the long ones of the values at the keys of a command, each copied while nothing is
    /// held. One that changes meanwhile stays as it is.
    #[cold]
    fn materialize_unlocked(
        &mut self,
        command: &Command,
        args: Args<'_>,
    ) -> Result<(), CommandError> {
        let (database, now) = (self.session.state.database, self.execution.now);
        for key in args.keys() {
            self.lock_one(key.shard);
            let guard = self.guard.as_ref().expect("locked just now");
            let Some(held) = guard.read(database, now).hold_adopted(key) else { continue };
            let mut copy = self.sparing(command, args, |keyspace, context| {
                keyspace.copy_adopted(key, &held, context)
            })?;
            self.lock_one(key.shard);
            let guard = self.guard.as_mut().expect("locked just now");
            let owned = guard.write(database, now).own_with(key, held, &mut copy);
            owned.map_err(|_| CommandError::OUT_OF_MEMORY)?;
        }
        Ok(())
    }
}
