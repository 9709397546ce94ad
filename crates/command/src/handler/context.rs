//! What a handler of each kind may touch.

use std::cell::Cell;

use base::prng::Prng;
use base::{Key, KeyHasher, Lsn, UnixMs};
use keyspace::{
    Access, MoveTerms, PrivateCopies, ReadView, Scratch, SessionPins, ShardSet, Uploader,
    WriteView, WrongType,
};

use crate::handler::error::CommandError;
use crate::handler::outcome::{Need, Unfinished};
use crate::handler::request::Args;
use crate::handler::session::SessionState;
use crate::host::Host;
use crate::host::client_info::ClientInfo;

/// Reads the session's database.
pub struct ReadContext<'c> {
    /// The database, under the locks of the command's keys.
    pub view: ReadView<'c>,
    /// The longest string that a write may make, in bytes: `proto-max-bulk-len`. Offsets beyond it
    /// are refused when reading too.
    pub value_bytes_max: u64,
    /// For commands that pick by chance.
    pub random: &'c Cell<Prng>,
}

/// Reads and writes the session's database.
pub struct WriteContext<'c> {
    /// The database, under the locks of the command's keys.
    pub view: WriteView<'c>,
    /// The longest string that may come about, in bytes: `proto-max-bulk-len`.
    pub value_bytes_max: u64,
    /// For commands that pick by chance.
    pub random: &'c Cell<Prng>,
    /// How many databases there are.
    pub database_count: usize,
    /// How it comes by the room that its request does not bring.
    pub memory_policy: MemoryPolicy,
    /// Whether the engine prepares for what takes long, where it is asked to: it makes long copies
    /// while no shard is held, and times the command by itself; and whether it makes room that the
    /// command can do without ([`Unfinished::AgainAnyway`]). Not within EXEC.
    pub prepares: bool,
    /// The most bytes of a reply that others than the session may make for it while they hold the
    /// shards, and keep until it takes them; where a handler that waits would reply with more
    /// without taking it out of the data, it answers [`Need::OwnWorker`]. There is no such bound
    /// where the session runs its request itself.
    pub reply_bytes_max: usize,
    /// Makes keys out of bytes.
    pub hasher: &'c KeyHasher,
    /// Whether a command that reads may keep what it has worked out: not while writes are refused.
    pub admits_writes: bool,
    /// What the session has uploaded.
    pub uploads: Uploader<'c>,
    /// What the session's client holds in the memory.
    pub pins: SessionPins<'c>,
    /// The number of the session.
    pub session: u64,
}

/// How a write comes by room that its request does not bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// If it finds no free memory, other keys are evicted and it is run again.
    Evict,
    /// Nothing is evicted while it runs: memory is reserved in advance, or the handler says how
    /// much it needs before it changes anything. It may exceed the memory limit by so many bytes.
    Reserved {
        /// By how many bytes all commands of an EXEC may exceed the limit; 0 outside of EXEC.
        overshoot_bytes_max: u64,
    },
}

impl MemoryPolicy {
    /// Returns by how many bytes the write may exceed the memory limit.
    pub fn overshoot_bytes_max(self) -> u64 {
        match self {
            MemoryPolicy::Evict => 0,
            MemoryPolicy::Reserved { overshoot_bytes_max } => overshoot_bytes_max,
        }
    }
}

/// Reads and changes the session.
pub struct SessionContext<'c> {
    /// The session that sent the request.
    pub session: &'c mut SessionState,
    /// A key that the session watches is known to have changed.
    pub has_changed_watch: bool,
    /// The process around the engine.
    pub host: &'c dyn Host,
    /// The time of the batch.
    pub now: UnixMs,
}

/// Works on the whole keyspace.
pub struct ControlContext<'c> {
    /// Free, or within the guard of an EXEC.
    pub access: Access<'c>,
    /// The session that sent the request.
    pub session: &'c mut SessionState,
    /// The process around the engine.
    pub host: &'c dyn Host,
    /// The time of the batch.
    pub now: UnixMs,
    /// For commands that pick by chance.
    pub random: &'c mut Prng,
    /// The last record that the handler has had written, for the reply to wait for.
    pub lsn: Lsn,
}

/// What the engine does after a session command has replied. Whatever ends a transaction ends the
/// watches too: EXEC that refuses, DISCARD, RESET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the engine acts on it"]
pub enum Next {
    /// Nothing.
    Done,
    /// Takes `session.transaction`, which is not broken, runs its queue and writes the reply of
    /// EXEC. The watches end.
    Exec,
    /// Watches the keys of the request.
    Watch,
    /// Forgets all watched keys.
    Unwatch,
    /// Closes the session once the replies are sent.
    Close,
}

impl SessionContext<'_> {
    /// Writes into `info` what the session that asks by `args` knows better than the server's last
    /// look at it.
    pub fn describe(&self, args: Args<'_>, info: &mut ClientInfo) {
        self.session.describe(info, self.now);
        info.has_changed_watch = self.has_changed_watch;
        info.argument_bytes = args.from(0).map(<[u8]>::len).sum();
        info.query_bytes = self.session.input.bytes;
        info.query_bytes_free = self.session.input.free_bytes;
    }
}

impl<'c> ReadContext<'c> {
    /// Returns the time that decides what has expired.
    #[inline]
    pub fn now(&self) -> UnixMs {
        self.view.now()
    }

    /// Returns the string at `key`.
    ///
    /// # Errors
    /// When the key holds another type.
    #[inline]
    pub fn string(&self, key: &Key<'_>) -> Result<Option<&'c [u8]>, WrongType> {
        self.view.string(key)
    }

    /// Returns the right to `bytes` of private memory, which the handler asks for before it takes
    /// them: others are evicted for it where that is allowed, and the handler is run again.
    ///
    /// # Errors
    /// There is no such room; nothing has been replied.
    pub fn scratch(&self, key: &Key<'_>, bytes: u64) -> Result<Scratch, Unfinished> {
        Ok(self.view.scratch(key, bytes)?)
    }
}

impl WriteContext<'_> {
    /// Checks that a string of `bytes` and `more` bytes together may come about.
    ///
    /// # Errors
    /// When it is too long.
    ///
    /// Source: Redis, checkStringLength.
    #[inline]
    pub fn check_value_bytes(&self, bytes: u64, more: usize) -> Result<(), CommandError> {
        match bytes.checked_add(more as u64) {
            Some(total) if total <= self.value_bytes_max => Ok(()),
            _ => Err(CommandError::STRING_TOO_LONG),
        }
    }

    /// Returns the keys `names`, which the request does not declare. A handler asks before it
    /// changes anything, and for all that it knows of at once.
    ///
    /// # Errors
    /// When the shard of one is not locked: the handler is run again once it is.
    pub fn undeclared_keys<'n, const COUNT: usize>(
        &self,
        names: [&'n [u8]; COUNT],
    ) -> Result<[Key<'n>; COUNT], Need> {
        let keys = names.map(|name| self.hasher.key(name));
        let mut lacking = keys.iter().map(|key| key.shard).filter(|shard| !self.view.holds(*shard));
        let Some(first) = lacking.next() else { return Ok(keys) };
        let mut shards = Box::new(ShardSet::new());
        shards.insert(first);
        lacking.for_each(|shard| shards.insert(shard));
        Err(Need::Shards(shards))
    }

    /// Returns the right to `bytes` of private memory, beside `more` bytes that are to be stored. A
    /// handler asks before it takes them, so that nothing is evicted, or refused, too late.
    ///
    /// # Errors
    /// There is no such room; nothing has changed.
    pub fn scratch(&self, key: &Key<'_>, bytes: u64, more: u64) -> Result<Scratch, Unfinished> {
        Ok(self.view.scratch(key, bytes, more)?)
    }

    /// Returns the terms on which the command moves a value.
    pub fn move_terms(&self, may_replace: bool) -> MoveTerms {
        MoveTerms { may_replace, may_be_long: !self.prepares }
    }

    /// Makes sure that no client can write the values at `keys`, so that their bytes can be used.
    /// Where room has to be reserved, it has to be for all of them.
    ///
    /// # Errors
    /// Where there is no room for copies, or they are to be made while no shard is locked; nothing
    /// has changed.
    pub fn own(&mut self, keys: &[Key<'_>]) -> Result<(), Unfinished> {
        if self.prepares && self.view.owns_long(keys) {
            return Err(Need::Owned.into());
        }
        if let MemoryPolicy::Reserved { overshoot_bytes_max } = self.memory_policy
            && let Some(bytes) = self.view.lacks_room_to_own(keys, overshoot_bytes_max)
        {
            return Err(Need::Reserve(bytes).into());
        }
        Ok(keys.iter().try_for_each(|key| self.view.own(key))?)
    }

    /// As [`WriteContext::own`], for a command that only reads the values: what there is no room to
    /// own it finds in the copies, once it has asked for room.
    ///
    /// # Errors
    /// Where it asks.
    pub fn own_or_copy(&mut self, keys: &[Key<'_>]) -> Result<PrivateCopies, Unfinished> {
        if !self.uploads.has_adopted() {
            return Ok(PrivateCopies::default());
        }
        match self.own(keys) {
            Ok(()) => Ok(PrivateCopies::default()),
            Err(Unfinished::Again(need)) if self.prepares => Err(Unfinished::AgainAnyway(need)),
            Err(_) => Ok(self.view.as_read().copy_adopted(keys)),
        }
    }

    /// Checks that there is free memory for as many bytes as `bound` returns, by which collections,
    /// that at `key` among them, grow in all, and which the request does not bring. Changes that
    /// are asked for so need not ask again, and so cannot be refused between two others.
    ///
    /// # Errors
    /// There is not enough; nothing has changed.
    pub fn admit_growth(
        &self,
        key: &Key<'_>,
        bound: impl FnOnce() -> u64,
    ) -> Result<(), Unfinished> {
        self.view.admit_growth(key, bound).map_err(|need| match self.memory_policy {
            MemoryPolicy::Evict => need.into(),
            MemoryPolicy::Reserved { .. } => Need::Reserve(need.bytes).into(),
        })
    }

    /// Checks, where nothing may be evicted while the command runs, that there is free memory to
    /// store `bytes` at `key` that the request does not bring.
    ///
    /// # Errors
    /// There is not enough.
    pub fn admit_upload(&mut self, key: &Key<'_>, bytes: u64) -> Result<(), Unfinished> {
        match self.memory_policy {
            MemoryPolicy::Reserved { overshoot_bytes_max }
                if self.view.lacks_room(key, bytes, overshoot_bytes_max) =>
            {
                Err(Need::Reserve(bytes).into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the time that decides what has expired.
    #[inline]
    pub fn now(&self) -> UnixMs {
        self.view.now()
    }
}
