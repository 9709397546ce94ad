//! Replays effects: the one way in which recovery, a follower and a test change data.
//!
//! No clock is asked. A key whose time has passed stays until its DEL comes, and an expiry in the
//! past is stored as it is. Memory limits do not count: what was written there must fit here.

use std::fmt;
use std::str;

use base::{DatabaseIndex, Key, UnixMs};
use keyspace::{Expiry, Guard, Keyspace, NeedRoom, ShardSet, WriteView};
use resp::{Batch, Decoder, Limits, RequestView, Requests};

/// Before all time: nothing has expired.
const NO_TIME: UnixMs = UnixMs(i64::MIN);

/// Replays records; keeps its buffers from one to the next.
#[derive(Debug, Default)]
pub struct Applier {
    batch: Batch,
    bytes: Vec<u8>,
}

/// Why a record could not be applied. Some of its effects may have been: the keyspace is no copy
/// of anything any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The bytes are not whole commands.
    Incomplete,
    /// A command of the record is no effect.
    Malformed {
        /// Which, counted from 0.
        position: usize,
    },
    /// The system has no memory left.
    NoRoom(NeedRoom),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::Incomplete => formatter.write_str("a record does not end with a command"),
            ApplyError::Malformed { position } => {
                write!(formatter, "command {position} of a record is no effect")
            }
            ApplyError::NoRoom(need) => {
                write!(formatter, "no memory to apply a record: {} bytes are missing", need.bytes)
            }
        }
    }
}

impl std::error::Error for ApplyError {}

/// One command of a record.
enum Step<'a> {
    Select(DatabaseIndex),
    Keyed(Key<'a>, Change<'a>),
    FlushDatabase,
    FlushAll,
    Swap(DatabaseIndex, DatabaseIndex),
}

/// What happens to one key.
enum Change<'a> {
    Set(&'a [u8], Expiry),
    Append(&'a [u8]),
    SetRange(usize, &'a [u8]),
    Delete,
    ExpireAt(UnixMs),
    Persist,
}

impl Applier {
    /// Returns an applier with empty buffers.
    pub fn new() -> Applier {
        Applier::default()
    }

    /// Applies the effects of `record`, as [`keyspace::Record::encode`] wrote them: all under the
    /// locks of all their keys, so that nobody sees a part. The caller holds no guard.
    ///
    /// # Errors
    /// When the bytes are no record, before any change; and when the system has no memory.
    pub fn apply(&mut self, keyspace: &Keyspace, record: &[u8]) -> Result<(), ApplyError> {
        self.bytes.clear();
        self.bytes.extend_from_slice(record);
        let limits = Limits::default();
        let decoded = Decoder::new().decode(&mut self.bytes, &mut self.batch, usize::MAX, &limits);
        if decoded.consumed != self.bytes.len() {
            return Err(ApplyError::Incomplete);
        }
        let steps = parse_all(keyspace, self.batch.view(&self.bytes))?;
        let mut guard = lock(keyspace, &steps);
        guard.begin_atomic();
        run_all(&mut guard, &steps).map_err(ApplyError::NoRoom)
    }
}

fn parse_all<'a>(keyspace: &Keyspace, requests: Requests<'a>) -> Result<Vec<Step<'a>>, ApplyError> {
    let steps = requests.iter().enumerate().map(|(position, request)| {
        parse(keyspace, request).ok_or(ApplyError::Malformed { position })
    });
    steps.collect()
}

fn parse<'a>(keyspace: &Keyspace, request: RequestView<'a>) -> Option<Step<'a>> {
    let arguments: Vec<&[u8]> = request.iter().collect();
    let keyed = |key, change| Some(Step::Keyed(keyspace.hasher().key(key), change));
    match arguments[..] {
        [b"SET", key, value] => keyed(key, Change::Set(value, Expiry::Clear)),
        [b"SET", key, value, b"KEEPTTL"] => keyed(key, Change::Set(value, Expiry::Keep)),
        [b"SET", key, value, b"PXAT", at] => keyed(key, Change::Set(value, Expiry::At(time(at)?))),
        [b"APPEND", key, suffix] => keyed(key, Change::Append(suffix)),
        [b"SETRANGE", key, offset, bytes] => keyed(key, Change::SetRange(number(offset)?, bytes)),
        [b"DEL", key] => keyed(key, Change::Delete),
        [b"PEXPIREAT", key, at] => keyed(key, Change::ExpireAt(time(at)?)),
        [b"PERSIST", key] => keyed(key, Change::Persist),
        [b"SELECT", index] => Some(Step::Select(database(keyspace, index)?)),
        [b"FLUSHDB"] => Some(Step::FlushDatabase),
        [b"FLUSHALL"] => Some(Step::FlushAll),
        [b"SWAPDB", a, b] => Some(Step::Swap(database(keyspace, a)?, database(keyspace, b)?)),
        _ => None,
    }
}

fn number<T: str::FromStr>(text: &[u8]) -> Option<T> {
    str::from_utf8(text).ok()?.parse().ok()
}

fn time(text: &[u8]) -> Option<UnixMs> {
    number(text).map(UnixMs)
}

fn database(keyspace: &Keyspace, text: &[u8]) -> Option<DatabaseIndex> {
    let index = DatabaseIndex(number(text)?);
    (index.position() < keyspace.database_count()).then_some(index)
}

fn lock<'k>(keyspace: &'k Keyspace, steps: &[Step<'_>]) -> Guard<'k> {
    let mut shards = ShardSet::new();
    for step in steps {
        match step {
            Step::Keyed(key, _) => shards.insert(key.shard),
            Step::Select(_) => {}
            Step::FlushDatabase | Step::FlushAll | Step::Swap(..) => return keyspace.lock_all(),
        }
    }
    if shards.is_empty() { keyspace.lock_all() } else { keyspace.lock_set(&shards) }
}

fn run_all(guard: &mut Guard<'_>, steps: &[Step<'_>]) -> Result<(), NeedRoom> {
    let mut database = DatabaseIndex(0);
    for step in steps {
        match step {
            Step::Select(index) => database = *index,
            Step::Keyed(key, change) => run(&mut guard.write(database, NO_TIME), key, change)?,
            Step::FlushDatabase => guard.access().flush_database(database, NO_TIME),
            Step::FlushAll => guard.access().flush_all(NO_TIME),
            Step::Swap(a, b) => guard.access().swap_databases(*a, *b, NO_TIME)?,
        }
    }
    Ok(())
}

fn run(view: &mut WriteView<'_>, key: &Key<'_>, change: &Change<'_>) -> Result<(), NeedRoom> {
    match *change {
        Change::Set(value, expiry) => view.set(key, value, expiry),
        Change::Append(suffix) => view.append(key, suffix).map(|_| ()),
        Change::SetRange(offset, bytes) => view.set_range(key, offset, bytes).map(|_| ()),
        Change::ExpireAt(at) => view.set_expiry(key, at).map(|_| ()),
        Change::Persist => view.persist(key).map(|_| ()),
        Change::Delete => {
            view.remove(key);
            Ok(())
        }
    }
}
