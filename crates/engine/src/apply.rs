//! Applies records to a keyspace: those of the log when a server starts. Replicas are to use the
//! same code.
//!
//! Changes of whole values are made here; a change of a collection is a request of a command whose
//! row says that its requests are effects, and is made by its handler. No clock is read: a key
//! whose time has passed stays until its DEL comes, and an expiry in the past is stored as it is.
//! Memory limits do not count: what was written at the source must fit here.

use std::cell::Cell;
use std::fmt;

use base::prng::Prng;
use base::{DatabaseIndex, Key, UnixMs};
use command::{
    Args, Command, CommandError, Flags, Handler, MemoryPolicy, Need, Unfinished, WriteContext,
};
use effects::{Change, Effect, RecordView};
use keyspace::{Guard, Keyspace, NeedRoom, ShardSet, Uploader, WriteView};
use resp::{OwnedRequest, Protocol, Reply};

use crate::engine::Engine;
use crate::execution_context::ExecutionContext;

/// Before all time: nothing has expired.
const NO_TIME: UnixMs = UnixMs(i64::MIN);

/// The longest string that a record may make, in bytes: `proto-max-bulk-len` at most.
const STRING_BYTES_MAX: u64 = u32::MAX as u64;

/// Replays records; keeps its buffer from one to the next.
#[derive(Debug, Default)]
pub struct Applier {
    /// What commands reply, which nobody reads.
    replies: Vec<u8>,
}

/// Why a record could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// A change is none that this keyspace can make. Nothing has changed.
    Unknown {
        /// Which of the record's changes, counted from 0.
        position: usize,
    },
    /// A change does not fit what the keyspace holds, which is therefore no copy of the one that
    /// the record comes from; some of the record's changes have been made.
    Misfit {
        /// Which of the record's changes, counted from 0.
        position: usize,
        /// What the command said.
        reason: String,
    },
    /// The system has no memory left. Some of the record's changes may have been made.
    NoRoom(NeedRoom),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::Unknown { position } => {
                write!(formatter, "change {position} of a record is not known here")
            }
            ApplyError::Misfit { position, reason } => {
                write!(formatter, "change {position} of a record does not fit: {reason}")
            }
            ApplyError::NoRoom(need) => {
                write!(formatter, "no memory to apply a record: {} bytes are missing", need.bytes)
            }
        }
    }
}

impl std::error::Error for ApplyError {}

/// A change that can be made: its databases exist, and its command is an effect.
struct Step<'a> {
    change: Change<'a>,
    /// The command of a [`Effect::Command`], with the whole request.
    command: Option<(&'static Command, OwnedRequest)>,
}

impl Engine {
    /// Applies the changes of `record`: all under the locks of all their keys, so that nobody sees
    /// a part. Who listens to the keyspace gets them as one record of the same time. Who waits for
    /// a key that has come is served right after. The caller holds no guard.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn apply(
        &self,
        applier: &mut Applier,
        record: &RecordView<'_>,
        execution: &mut ExecutionContext<'_>,
    ) -> Result<(), ApplyError> {
        let applied = applier.apply(self.keyspace(), record);
        // Some of the changes may have been made whatever came of the others.
        self.serve_left(execution);
        applied
    }
}

impl Engine {
    /// As [`Engine::apply`], before there is any session that could wait or look.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn replay(&self, applier: &mut Applier, record: &RecordView<'_>) -> Result<(), ApplyError> {
        applier.apply(self.keyspace(), record)
    }
}

impl Applier {
    /// Returns an applier with an empty buffer.
    pub fn new() -> Applier {
        Applier::default()
    }

    /// As [`Engine::apply`], but for those who wait: the caller serves them.
    pub(crate) fn apply(
        &mut self,
        keyspace: &Keyspace,
        record: &RecordView<'_>,
    ) -> Result<(), ApplyError> {
        let steps = record.changes().enumerate().map(|(position, change)| {
            prepare(keyspace, change).ok_or(ApplyError::Unknown { position })
        });
        let steps: Vec<Step<'_>> = steps.collect::<Result<_, _>>()?;
        if steps.is_empty() {
            return Ok(());
        }
        let mut guard = lock(keyspace, &steps);
        guard.begin_atomic();
        guard.replay_at(record.header().time);
        for (position, step) in steps.iter().enumerate() {
            self.run(keyspace, &mut guard, step).map_err(|unfinished| match unfinished {
                Unfinished::Again(Need::Room(need)) => ApplyError::NoRoom(need),
                Unfinished::Refused(error) => {
                    let reason = String::from_utf8_lossy(&error.text()).into_owned();
                    ApplyError::Misfit { position, reason }
                }
                Unfinished::Again(_) | Unfinished::AgainAnyway(_) | Unfinished::Wait(_) => {
                    unreachable!("effects find what they need, and wait for nothing")
                }
            })?;
        }
        Ok(())
    }

    fn run(
        &mut self,
        keyspace: &Keyspace,
        guard: &mut Guard<'_>,
        step: &Step<'_>,
    ) -> Result<(), Unfinished> {
        let database = step.change.database;
        let hash = |key| keyspace.hasher().key(key);
        // Whether what is changed is there, as it was where the record was made.
        let is_there = match step.change.effect {
            Effect::FlushDatabase => {
                guard.access().flush_database(database, NO_TIME);
                true
            }
            Effect::FlushAll => {
                guard.access().flush_all(NO_TIME);
                true
            }
            Effect::SwapDatabases { a, b } => {
                guard.access().swap_databases(a, b, NO_TIME)?;
                true
            }
            Effect::Command { .. } => {
                let (command, request) = step.command.as_ref().expect("it was resolved");
                return self.run_command(keyspace, guard, database, command, request);
            }
            Effect::Set { key, value, expiry } => {
                guard.write(database, NO_TIME).set(&hash(key), value, expiry)?;
                true
            }
            Effect::Append { key, suffix } => {
                let (key, mut view) = (hash(key), guard.write(database, NO_TIME));
                // A part of a string changes where nothing but a string was seen to be.
                view.string_length(&key)?;
                view.append(&key, suffix)?;
                true
            }
            Effect::SetRange { key, offset, bytes } => {
                set_range(&mut guard.write(database, NO_TIME), &hash(key), offset, bytes)?;
                true
            }
            Effect::MakeText { key } => {
                let (key, mut view) = (hash(key), guard.write(database, NO_TIME));
                let is_there = view.string_length(&key)?.is_some();
                view.make_text(&key)?;
                is_there
            }
            Effect::Restore { key, payload, form, expires_at, last_use } => {
                let (key, mut view) = (hash(key), guard.write(database, NO_TIME));
                let restored = view.read_payload(&key, payload, u64::MAX, Some(form))?;
                view.restore(&key, restored, expires_at, last_use)?;
                true
            }
            Effect::Delete { key } => guard.write(database, NO_TIME).remove(&hash(key)),
            effect @ (Effect::ExpireAt { key, .. }
            | Effect::ExpireStaleAt { key, .. }
            | Effect::Persist { key }) => set_time(guard, database, &hash(key), effect)?,
            Effect::Rename { source, target } => {
                guard.write(database, NO_TIME).rename(&hash(source), &hash(target))?
            }
            Effect::Move { key, database: to } => {
                guard.write(database, NO_TIME).move_to(&hash(key), to)?
            }
            Effect::Copy { source, target, database: to } => {
                guard.write(database, NO_TIME).copy_to(&hash(source), &hash(target), to)?
            }
        };
        if is_there { Ok(()) } else { Err(CommandError::NO_SUCH_KEY.into()) }
    }

    fn run_command(
        &mut self,
        keyspace: &Keyspace,
        guard: &mut Guard<'_>,
        database: DatabaseIndex,
        command: &Command,
        request: &OwnedRequest,
    ) -> Result<(), Unfinished> {
        let Handler::Write(handler) = command.handler else {
            unreachable!("a command that is an effect writes")
        };
        // LMOVE may name its key twice.
        let positions = command.key_positions(request.view());
        let keys: Vec<Key<'_>> =
            positions.map(|position| keyspace.hasher().key(request.view().at(position))).collect();
        // Effects ask for no chance.
        let mut random = Prng::new(0);
        let mut context = WriteContext {
            view: guard.write(database, NO_TIME),
            value_bytes_max: u64::MAX,
            random: Cell::from_mut(&mut random),
            database_count: keyspace.database_count(),
            memory_policy: MemoryPolicy::Reserved { overshoot_bytes_max: u64::MAX },
            prepares: false,
            reply_bytes_max: usize::MAX,
            hasher: keyspace.hasher(),
            admits_writes: true,
            uploads: Uploader::new(keyspace.arena().uploads(), 0),
            pins: keyspace.arena().pins().of(0),
            session: 0,
        };
        self.replies.clear();
        let mut reply = Reply::new(&mut self.replies, Protocol::Resp2);
        handler(&mut context, Args::new(&request.view(), &keys), &mut reply)
    }
}

/// Makes `key` expire as `effect` says; returns whether there was anything to change.
fn set_time(
    guard: &mut Guard<'_>,
    database: DatabaseIndex,
    key: &Key<'_>,
    effect: Effect<'_>,
) -> Result<bool, NeedRoom> {
    let mut view = guard.write(database, NO_TIME);
    match effect {
        Effect::ExpireAt { at, .. } => view.set_expiry(key, at),
        Effect::ExpireStaleAt { at, grace_ms, .. } => view.set_stale_expiry(key, at, grace_ms),
        _ => view.persist(key),
    }
}

/// Writes `bytes` into the string at `key` from byte `offset` on.
fn set_range(
    view: &mut WriteView<'_>,
    key: &Key<'_>,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Unfinished> {
    view.string_length(key)?;
    let end = offset.checked_add(bytes.len() as u64);
    if end.is_none_or(|end| end > STRING_BYTES_MAX) {
        return Err(CommandError::STRING_TOO_LONG.into());
    }
    view.set_range(key, offset as usize, bytes)?;
    Ok(())
}

/// Returns `change` as a step; none where this keyspace cannot make it.
fn prepare<'a>(keyspace: &Keyspace, change: Change<'a>) -> Option<Step<'a>> {
    let is_there = |database: DatabaseIndex| database.position() < keyspace.database_count();
    let are_there = match change.effect {
        Effect::Move { database, .. } | Effect::Copy { database, .. } => is_there(database),
        Effect::SwapDatabases { a, b } => is_there(a) && is_there(b),
        _ => true,
    };
    if !are_there || !is_there(change.database) {
        return None;
    }
    let Effect::Command { name, key, arguments } = change.effect else {
        return Some(Step { change, command: None });
    };
    let names = name.split('|').map(str::as_bytes);
    let request = OwnedRequest::new(names.chain([key]).chain(arguments));
    let command = command::resolve(request.view()).ok()?;
    let names_key = |position| request.view().at(position) == key;
    let is_effect =
        command.is(Flags::EFFECT) && command.key_positions(request.view()).all(names_key);
    is_effect.then_some(Step { change, command: Some((command, request)) })
}

fn lock<'k>(keyspace: &'k Keyspace, steps: &[Step<'_>]) -> Guard<'k> {
    let mut shards = ShardSet::new();
    for step in steps {
        let is_of_all = step.change.effect.keys().next().is_none();
        if is_of_all {
            return keyspace.lock_all();
        }
        let keys = step.change.effect.keys().map(|key| keyspace.hasher().key(key));
        keys.for_each(|key| shards.insert(key.shard));
    }
    keyspace.lock_set(&shards)
}
