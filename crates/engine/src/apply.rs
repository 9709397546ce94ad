//! Replays effects: the one way in which recovery, a follower and a test change data.
//!
//! No clock is asked. A key whose time has passed stays until its DEL comes, and an expiry in the
//! past is stored as it is. Memory limits do not count: what was written there must fit here.

use std::fmt;
use std::str;

use base::{DatabaseIndex, Key, UnixMs};
use collections::{End, Place};
use keyspace::{Expiry, Guard, Keyspace, NeedRoom, Refusal, ShardSet, WhenAbsent, WriteView};
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
    Rename(Key<'a>, Key<'a>),
    Move(Key<'a>, DatabaseIndex),
    Copy(Key<'a>, Key<'a>, DatabaseIndex),
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
    MakeText,
    Push(End, Vec<&'a [u8]>),
    Pop(End, usize),
    SetElement(usize, &'a [u8]),
    Trim(usize, usize),
    Insert(Place, &'a [u8], &'a [u8]),
    RemoveElements(End, usize, &'a [u8]),
    SetFields(Vec<&'a [u8]>),
    RemoveFields(Vec<&'a [u8]>),
    AddMembers(Vec<&'a [u8]>),
    RemoveMembers(Vec<&'a [u8]>),
    Score(Vec<(f64, &'a [u8])>),
    RemoveScored(Vec<&'a [u8]>),
    RemoveRanks(usize, usize),
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
    let hash = |key| keyspace.hasher().key(key);
    let keyed = |key, change| Some(Step::Keyed(hash(key), change));
    match arguments[..] {
        [b"SET", key, value] => keyed(key, Change::Set(value, Expiry::Clear)),
        [b"SET", key, value, b"KEEPTTL"] => keyed(key, Change::Set(value, Expiry::Keep)),
        [b"SET", key, value, b"PXAT", at] => keyed(key, Change::Set(value, Expiry::At(time(at)?))),
        [b"APPEND", key, suffix] => keyed(key, Change::Append(suffix)),
        [b"SETRANGE", key, offset, bytes] => keyed(key, Change::SetRange(number(offset)?, bytes)),
        [b"DEL", key] => keyed(key, Change::Delete),
        [b"PEXPIREAT", key, at] => keyed(key, Change::ExpireAt(time(at)?)),
        [b"PERSIST", key] => keyed(key, Change::Persist),
        [b"INCRBYFLOAT", key, b"0"] => keyed(key, Change::MakeText),
        [b"RENAME", source, target] => Some(Step::Rename(hash(source), hash(target))),
        [b"MOVE", key, index] => Some(Step::Move(hash(key), database(keyspace, index)?)),
        [b"COPY", source, target, b"DB", index, b"REPLACE"] => {
            Some(Step::Copy(hash(source), hash(target), database(keyspace, index)?))
        }
        [b"SELECT", index] => Some(Step::Select(database(keyspace, index)?)),
        [b"FLUSHDB"] => Some(Step::FlushDatabase),
        [b"FLUSHALL"] => Some(Step::FlushAll),
        [b"SWAPDB", a, b] => Some(Step::Swap(database(keyspace, a)?, database(keyspace, b)?)),
        [name, key, ref rest @ ..] if !rest.is_empty() => keyed(key, parse_parts(name, rest)?),
        _ => None,
    }
}

/// Reads what happens to the parts of a collection.
fn parse_parts<'a>(name: &[u8], rest: &[&'a [u8]]) -> Option<Change<'a>> {
    let pairs = || {
        let scored = rest.chunks_exact(2).map(|pair| Some((number::<f64>(pair[0])?, pair[1])));
        let all: Option<Vec<_>> = scored.collect();
        all.filter(|all| all.iter().all(|(score, _)| !score.is_nan()))
    };
    Some(match (name, rest) {
        (b"LPUSH", _) => Change::Push(End::Head, rest.to_vec()),
        (b"RPUSH", _) => Change::Push(End::Tail, rest.to_vec()),
        (b"LPOP", [count]) => Change::Pop(End::Head, number(count)?),
        (b"RPOP", [count]) => Change::Pop(End::Tail, number(count)?),
        (b"LSET", [index, element]) => Change::SetElement(number(index)?, element),
        (b"LTRIM", [start, stop]) => {
            let (start, stop) = (number::<usize>(start)?, number::<usize>(stop)?);
            Change::Trim(start, stop.checked_add(1)?.saturating_sub(start))
        }
        (b"LINSERT", [b"BEFORE", pivot, element]) => Change::Insert(Place::Before, pivot, element),
        (b"LINSERT", [b"AFTER", pivot, element]) => Change::Insert(Place::After, pivot, element),
        (b"LREM", [count, element]) => {
            let count = number::<i64>(count)?;
            let end = if count > 0 { End::Head } else { End::Tail };
            Change::RemoveElements(end, count.unsigned_abs() as usize, element)
        }
        (b"HSET", _) if rest.len().is_multiple_of(2) => Change::SetFields(rest.to_vec()),
        (b"HDEL", _) => Change::RemoveFields(rest.to_vec()),
        (b"SADD", _) => Change::AddMembers(rest.to_vec()),
        (b"SREM", _) => Change::RemoveMembers(rest.to_vec()),
        (b"ZADD", _) if rest.len().is_multiple_of(2) => Change::Score(pairs()?),
        (b"ZREM", _) => Change::RemoveScored(rest.to_vec()),
        (b"ZREMRANGEBYRANK", [first, last]) => {
            let (first, last) = (number::<usize>(first)?, number::<usize>(last)?);
            Change::RemoveRanks(first, last.checked_add(1)?.checked_sub(first)?)
        }
        _ => return None,
    })
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
            Step::Keyed(key, _) | Step::Move(key, _) => shards.insert(key.shard),
            Step::Rename(source, target) | Step::Copy(source, target, _) => {
                [source, target].iter().for_each(|key| shards.insert(key.shard));
            }
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
            Step::Rename(source, target) => {
                guard.write(database, NO_TIME).rename(source, target)?;
            }
            Step::Move(key, to) => drop(guard.write(database, NO_TIME).move_to(key, *to)?),
            Step::Copy(source, target, to) => {
                guard.write(database, NO_TIME).copy_to(source, target, *to)?;
            }
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
        Change::MakeText => view.make_text(key),
        Change::Delete => {
            view.remove(key);
            Ok(())
        }
        _ => match run_parts(view, key, change) {
            Err(Refusal::NeedRoom(need)) => Err(need),
            Err(Refusal::WrongType) => panic!("an effect fits what the effects before it left"),
            Ok(()) => Ok(()),
        },
    }
}

/// Changes the parts of a collection.
fn run_parts(view: &mut WriteView<'_>, key: &Key<'_>, change: &Change<'_>) -> Result<(), Refusal> {
    let create = WhenAbsent::Create;
    match change {
        Change::Push(end, all) => view.push(key, *end, all.iter().copied(), create).map(|_| ()),
        Change::Pop(end, count) => Ok(view.pop(key, *end, *count, |_, _| ()).map(|_| ())?),
        Change::SetElement(index, element) => view.set_element(key, *index, element).map(|_| ()),
        Change::Trim(start, count) => Ok(view.trim(key, *start, *count)?),
        Change::Insert(place, pivot, element) => {
            view.insert_element(key, *place, pivot, element).map(|_| ())
        }
        Change::RemoveElements(end, count, element) => {
            Ok(view.remove_elements(key, *end, *count, element).map(|_| ())?)
        }
        Change::SetFields(parts) => view.set_fields(key, parts.iter().copied()).map(|_| ()),
        Change::RemoveFields(fields) => {
            Ok(view.remove_fields(key, fields.iter().copied()).map(|_| ())?)
        }
        Change::AddMembers(all) => view.add_members(key, all.iter().copied()).map(|_| ()),
        Change::RemoveMembers(all) => {
            Ok(view.remove_members(key, all.iter().copied()).map(|_| ())?)
        }
        Change::Score(pairs) => {
            view.score_members(key, pairs, create, |_, score| Some(score)).map(|_| ())
        }
        Change::RemoveScored(all) => {
            Ok(view.remove_scored(key, all.iter().copied()).map(|_| ())?)
        }
        Change::RemoveRanks(start, count) => Ok(view.remove_ranks(key, *start, *count)?),
        _ => panic!("what happens to whole values is done elsewhere"),
    }
}
