//! One-sided reads: what a process with a read-only mapping of the arena does.
//!
//! A read walks the index itself, under the sequences of the table header, the home bucket and, for
//! a large entry, the descriptor's location; it copies the value, searches it where it lies, or
//! pins its block; then it checks all of them again. What was read before that second check may be
//! stale: a reader checks every offset and length against the range before it follows it, so that a
//! stale word gives a wrong answer, which the second check rejects, but never a fault. No step
//! makes a system call, and none but the growth of the caller's buffer allocates.
//!
//! *Layout*: this file has the operations; `walk.rs` finds an entry and checks again;
//! `view.rs` is a value where it lies, `shared_bytes.rs` one that may change while it is searched.
//! *Invariants*: a reader writes nothing but its own pin table; attempts are bounded, and then the
//! caller asks over the socket.
//! *Not here*: mapping segments, reading a clock, asking the server.

mod shared_bytes;
#[cfg(test)]
mod tests;
mod view;
mod walk;

use std::fmt;
use std::ops::{ControlFlow, Deref, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use base::hash::INDEX_HASH;
use base::{ChangingBytes, DatabaseIndex, Key, KeyHasher, ShardIndex, Slot, UnixMs};

use crate::layout::{self, Encoding, ValueType, root, table_header_offset};
use crate::pin_slots::{Pin, PinSlots};
use crate::pins::PinMemory;

use crate::access_reports::{self, AccessReport};
use crate::protocol_rules::{Rule, linger};

use walk::{Chained, Foresight, Found, Mapping, Stop, Walk};

use view::{KeptSlots, Pinned};

pub use shared_bytes::SharedBytes;
pub use view::{KeptView, View};

/// For how many keys memory is fetched ahead of their reads: about as many misses as a processor
/// has underway.
const KEYS_AHEAD: usize = 16;
/// How many buckets of a key's chain are looked at ahead of its read; few entries are further.
const BUCKETS_AHEAD: u32 = 2;

/// How often a read begins anew because something under it changed.
pub const ATTEMPTS_MAX: u32 = 64;

/// A mapping of the arena's range, for reading.
///
/// # Safety
/// For as long as the value lives, `base()` is constant and aligned to 4096, and every byte of the
/// `span_bytes()` behind it can be read: where a segment is not mapped, as anything, such as zero.
/// Since [`SegmentView::epoch`] returns a number, every segment that the arena had when its segment
/// epoch was that number is mapped at its offset.
pub unsafe trait SegmentView: Send + Sync {
    /// Returns the first byte of the range.
    fn base(&self) -> NonNull<u8>;

    /// Returns the size of the range in bytes, a multiple of 4096.
    fn span_bytes(&self) -> u64;

    /// Returns the segment epoch as of which the mapping is complete.
    fn epoch(&self) -> u64;
}

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The key has this value.
    Found(T),
    /// There is no such key, or it has expired.
    Absent,
    /// The key holds another type than the one that was asked for.
    WrongType,
    /// The entry changes too fast, its chain is full, its shard is in MULTI, or one-sided reads are
    /// off: ask the server instead.
    Busy,
    /// The arena has segments that are not mapped yet: map them and try again.
    NeedSegments,
}

impl<T> Outcome<T> {
    /// Returns the outcome with what was found changed by `change`.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Found(value) => Outcome::Found(change(value)),
            Outcome::Absent => Outcome::Absent,
            Outcome::WrongType => Outcome::WrongType,
            Outcome::Busy => Outcome::Busy,
            Outcome::NeedSegments => Outcome::NeedSegments,
        }
    }
}

/// A collection as a read found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundCollection {
    /// The caller's buffer begins with its compact form: a listpack or an intset of Redis.
    Compact(Encoding),
    /// It lies in the server's private memory.
    Private {
        /// How many elements it has, where the entry says so.
        count: Option<u64>,
    },
}

/// A collection where it lies, while a read of it runs.
#[derive(Clone, Copy)]
pub enum SharedCollection<'a> {
    /// These bytes begin with its compact form: a listpack or an intset of Redis. They may change
    /// while they are looked at.
    Compact(Encoding, SharedBytes<'a>),
    /// As [`FoundCollection::Private`].
    Private {
        /// How many elements it has, where the entry says so.
        count: Option<u64>,
    },
}

/// Memory that a value is copied to.
pub trait Target {
    /// Returns `length` bytes, which are all that it holds; what they are is not said.
    fn room(&mut self, length: usize) -> &mut [u8];
}

impl Target for Vec<u8> {
    #[inline]
    fn room(&mut self, length: usize) -> &mut [u8] {
        // Only what it lacks is zeroed: a reader that reuses one writes each byte once.
        self.resize(length, 0);
        self
    }
}

impl<T: Target + Default> Target for Option<T> {
    #[inline]
    fn room(&mut self, length: usize) -> &mut [u8] {
        self.get_or_insert_default().room(length)
    }
}

/// Why a mapping cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The first word is not the arena's.
    Magic {
        /// What stands there.
        found: u64,
    },
    /// The layout is of another version.
    Version {
        /// Its version.
        found: u64,
    },
    /// Keys are hashed otherwise.
    Hash {
        /// The name of the hash.
        found: u64,
    },
    /// The root says something impossible.
    Geometry {
        /// The offset of the word in the root.
        word: u64,
        /// What stands there.
        found: u64,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Magic { found } => write!(formatter, "no arena: it begins with {found:#x}"),
            OpenError::Version { found } => {
                let expected = layout::VERSION;
                write!(formatter, "arena layout {found}; this reader knows {expected}")
            }
            OpenError::Hash { found } => {
                let [found, expected] = [*found, INDEX_HASH].map(u64::to_le_bytes);
                let (found, expected) = (found.escape_ascii(), expected.escape_ascii());
                write!(formatter, "arena keys hashed by '{found}'; this reader knows '{expected}'")
            }
            OpenError::Geometry { word, found } => {
                write!(formatter, "impossible arena: root word {word} is {found}")
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// Reads the arena of another process. Any number of threads may share one.
pub struct Reader<V> {
    view: V,
    mapping: Mapping,
    hasher: KeyHasher,
    shard_count: u64,
    database_count: u64,
    slots: Option<PinSlots>,
}

/// A read that is an access of its key: the server may be told of it.
const COUNTED: bool = true;
/// A read that is none.
const UNCOUNTED: bool = false;

/// A value that is held: copied into the caller's buffer, or pinned where it lies.
enum Held<S: Deref<Target = PinSlots>> {
    Copied,
    Pinned(Pinned<S>),
}

impl<V: SegmentView> Reader<V> {
    /// Reads the root of `view`. `pins` is the session's pin table; without one, large values are
    /// copied.
    ///
    /// # Errors
    /// When the memory is not an arena that this reader understands.
    pub fn open(view: V, pins: Option<Arc<dyn PinMemory>>) -> Result<Reader<V>, OpenError> {
        let mapping = Mapping::new(view.base(), view.span_bytes());
        let load = |word: u64| mapping.load(word).unwrap_or(0);
        let geometry = |word: u64, holds: bool| {
            if holds {
                Ok(load(word))
            } else {
                Err(OpenError::Geometry { word, found: load(word) })
            }
        };
        if load(root::MAGIC) != layout::MAGIC {
            return Err(OpenError::Magic { found: load(root::MAGIC) });
        }
        if load(root::VERSION) != layout::VERSION {
            return Err(OpenError::Version { found: load(root::VERSION) });
        }
        if load(root::HASH) != INDEX_HASH {
            return Err(OpenError::Hash { found: load(root::HASH) });
        }
        let shards = load(root::SHARD_COUNT);
        let shard_count =
            geometry(root::SHARD_COUNT, shards.is_power_of_two() && shards <= SHARD_COUNT_MAX)?;
        let databases = load(root::DATABASE_COUNT);
        let is_known = (1..=base::DATABASE_COUNT_MAX as u64).contains(&databases);
        let database_count = geometry(root::DATABASE_COUNT, is_known)?;
        geometry(root::SPAN_BYTES, load(root::SPAN_BYTES) == view.span_bytes())?;
        let upload_base = load(root::UPLOAD_BASE);
        geometry(root::UPLOAD_BASE, upload_base > 0 && upload_base <= view.span_bytes())?;
        let mapping = mapping.with_uploads(upload_base);
        let hasher = KeyHasher::new(root::HASH_KEY.map(load), shard_count as usize);
        let slots = pins.map(PinSlots::new);
        Ok(Reader { view, mapping, hasher, shard_count, database_count, slots })
    }

    /// Returns the mapping.
    pub fn segments(&self) -> &V {
        &self.view
    }

    /// Returns the hasher of the arena's keys.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns the segment epoch that the arena has now.
    pub fn arena_epoch(&self) -> u64 {
        self.mapping.load(root::SEGMENT_EPOCH).unwrap_or(0)
    }

    /// Copies the value of `key` to `value`, replacing what is in it; what `value` holds where the
    /// outcome is another than `Found` means nothing. `now` is asked only where the entry has a
    /// time to live, here and everywhere.
    #[inline]
    pub fn get(
        &self,
        database: DatabaseIndex,
        key: &[u8],
        now: impl Fn() -> UnixMs,
        value: &mut Vec<u8>,
    ) -> Outcome<()> {
        self.get_part(database, key, now, |length| 0..length, value)
    }

    /// Copies the bytes `start..=end` of the value to `value`, counted from the end where
    /// negative, as GETRANGE does.
    pub fn getrange(
        &self,
        database: DatabaseIndex,
        key: &[u8],
        now: impl Fn() -> UnixMs,
        (start, end): (i64, i64),
        value: &mut Vec<u8>,
    ) -> Outcome<()> {
        self.get_part(database, key, now, |length| part_of(length, start, end), value)
    }

    /// As [`Reader::view`], for a view that does not borrow the buffer: `Found(None)` where the
    /// value was copied to `buffer`.
    #[inline]
    pub fn pin(
        &self,
        database: DatabaseIndex,
        key: &[u8],
        now: impl Fn() -> UnixMs,
        buffer: &mut Vec<u8>,
    ) -> Outcome<Option<View<'_>>> {
        let pin = |block, bytes| self.pin_in(self.slots.as_ref()?, block, bytes);
        let key = self.hasher.key(key);
        self.hold(database, &key, now, |length| 0..length, buffer, pin).map(|held| match held {
            Held::Copied => None,
            Held::Pinned(value) => Some(View::pinned(value)),
        })
    }

    /// Returns the value of `key` where it lies: a large one pinned, with no copy, for as long as
    /// the view lives; a small one, or a large one when the session has no pin slot or not enough
    /// of its share of memory left, copied to `buffer`.
    #[inline]
    pub fn view<'a>(
        &'a self,
        database: DatabaseIndex,
        key: &[u8],
        now: impl Fn() -> UnixMs,
        buffer: &'a mut Vec<u8>,
    ) -> Outcome<View<'a>> {
        let pin = |block, bytes| self.pin_in(self.slots.as_ref()?, block, bytes);
        let key = self.hasher.key(key);
        let held = self.hold(database, &key, now, |length| 0..length, buffer, pin);
        held.map(move |held| match held {
            Held::Copied => View::copied(buffer),
            Held::Pinned(value) => View::pinned(value),
        })
    }

    /// As [`Reader::view`], for a view that borrows nothing: it keeps the reader, and with it the
    /// mapping. `Found(None)` where the value was copied to `target`, which means nothing after any
    /// other outcome.
    #[inline]
    pub fn keep(
        self: &Arc<Reader<V>>,
        database: DatabaseIndex,
        key: &[u8],
        now: impl Fn() -> UnixMs,
        target: &mut impl Target,
    ) -> Outcome<Option<KeptView<V>>> {
        self.keep_hashed(database, &self.hasher.key(key), now, target)
    }

    /// As [`Reader::keep`] for each of `keys`, whose cache misses overlap, each with the target of
    /// `targets` at its place: calls `take` with what it came to and with that target, in the order
    /// of the keys, until that breaks off. Each is read for itself, at a moment of its own.
    #[inline]
    pub fn keep_each<T: Target>(
        self: &Arc<Reader<V>>,
        database: DatabaseIndex,
        keys: &[&[u8]],
        now: impl Fn() -> UnixMs,
        targets: &mut [T],
        mut take: impl FnMut(Outcome<Option<KeptView<V>>>, &mut T) -> ControlFlow<()>,
    ) {
        assert_eq!(keys.len(), targets.len(), "each key has a target");
        let mut hashed =
            [Key { bytes: &[], hash: 0, slot: Slot(0), shard: ShardIndex(0) }; KEYS_AHEAD];
        for (keys, targets) in keys.chunks(KEYS_AHEAD).zip(targets.chunks_mut(KEYS_AHEAD)) {
            let hashed = &mut hashed[..keys.len()];
            for (place, key) in hashed.iter_mut().zip(keys) {
                *place = self.hasher.key(key);
            }
            self.prefetch(database, hashed);
            for (key, target) in hashed.iter().zip(targets) {
                let outcome = self.keep_hashed(database, key, &now, target);
                if take(outcome, target).is_break() {
                    return;
                }
            }
        }
    }

    #[inline]
    fn keep_hashed(
        self: &Arc<Reader<V>>,
        database: DatabaseIndex,
        key: &Key<'_>,
        now: impl Fn() -> UnixMs,
        target: &mut impl Target,
    ) -> Outcome<Option<KeptView<V>>> {
        let pin = |block, bytes| self.pin_in(KeptSlots::of(self)?, block, bytes);
        let held = self.hold(database, key, now, |length| 0..length, target, pin);
        held.map(|held| match held {
            Held::Copied => None,
            Held::Pinned(value) => Some(KeptView::pinned(value)),
        })
    }

    /// Asks the cache for what reads of `keys` are about to walk. It finds nothing out, and changes
    /// no answer.
    #[inline]
    fn prefetch(&self, database: DatabaseIndex, keys: &[Key<'_>]) {
        if u64::from(database.0) >= self.database_count {
            return;
        }
        let mut ahead = [Foresight::default(); KEYS_AHEAD];
        let ahead = &mut ahead[..keys.len()];
        for (place, key) in ahead.iter_mut().zip(keys) {
            let header = self.table_header(database, key);
            *place = Foresight::of_bucket(&self.mapping, header, key.hash);
        }
        for _ in 0..BUCKETS_AHEAD {
            for (place, key) in ahead.iter_mut().zip(keys) {
                place.follow(&self.mapping, key.hash);
            }
        }
        for place in ahead {
            place.follow_to_block(&self.mapping);
        }
    }

    /// Returns where the table header of the shard of `key` lies.
    #[inline(always)]
    fn table_header(&self, database: DatabaseIndex, key: &Key<'_>) -> u64 {
        let shard = u64::from(key.shard.0);
        table_header_offset(u64::from(database.0), shard, self.shard_count)
    }

    /// Returns [`Outcome::Found`] where `key` exists, of any type.
    pub fn exists(
        &self,
        database: DatabaseIndex,
        key: &[u8],
        now: impl Fn() -> UnixMs,
    ) -> Outcome<()> {
        self.attempt(database, &self.hasher.key(key), now, UNCOUNTED, |_, _| Ok(()))
    }

    /// Returns the length of the value of `key` in bytes.
    pub fn strlen(
        &self,
        database: DatabaseIndex,
        key: &[u8],
        now: impl Fn() -> UnixMs,
    ) -> Outcome<u64> {
        self.attempt(database, &self.hasher.key(key), now, COUNTED, |walk, found| {
            walk.string_length(found)
        })
    }

    /// Looks up the collection of `value_type` at `key`; copies the compact form of a small one to
    /// `compact`, replacing what is in it. Behind its last element may be bytes that mean nothing.
    #[inline]
    pub fn collection(
        &self,
        database: DatabaseIndex,
        key: &[u8],
        value_type: ValueType,
        now: impl Fn() -> UnixMs,
        compact: &mut Vec<u8>,
    ) -> Outcome<FoundCollection> {
        self.search_collection(database, key, value_type, now, |found| {
            Some(match found {
                SharedCollection::Compact(encoding, bytes) => {
                    bytes.copy_to(compact);
                    FoundCollection::Compact(encoding)
                }
                SharedCollection::Private { count } => FoundCollection::Private { count },
            })
        })
    }

    /// Calls `search` with the collection of `value_type` at `key`, and returns what it found, once
    /// it is known that the collection did not change meanwhile; until then, whatever `search` is
    /// shown may be nonsense. It returns `None` where that shows. It may be called several times.
    #[inline]
    pub fn search_collection<T>(
        &self,
        database: DatabaseIndex,
        key: &[u8],
        value_type: ValueType,
        now: impl Fn() -> UnixMs,
        mut search: impl FnMut(SharedCollection<'_>) -> Option<T>,
    ) -> Outcome<T> {
        self.attempt(database, &self.hasher.key(key), now, COUNTED, |walk, found| {
            walk.need_type(found, value_type)?;
            search(self.collection_of(found)?).ok_or(Stop::Changed)
        })
    }

    #[inline(always)]
    fn collection_of(&self, found: &Found) -> Result<SharedCollection<'_>, Stop> {
        if found.large.is_some() {
            // One with so long a key has a handle alone.
            return Ok(SharedCollection::Private { count: None });
        }
        let bytes = self.mapping.shared(found.value_at, found.value_length)?;
        Ok(match found.encoding_bits() {
            bits if bits == Encoding::Listpack as u64 => {
                SharedCollection::Compact(Encoding::Listpack, bytes)
            }
            bits if bits == Encoding::Intset as u64 => {
                SharedCollection::Compact(Encoding::Intset, bytes)
            }
            _ => SharedCollection::Private { count: count_beside_handle(bytes) },
        })
    }

    /// Returns when `key` expires, or `None` where it does not.
    pub fn expiry(
        &self,
        database: DatabaseIndex,
        key: &[u8],
        now: impl Fn() -> UnixMs,
    ) -> Outcome<Option<UnixMs>> {
        self.attempt(database, &self.hasher.key(key), now, UNCOUNTED, |_, found| Ok(found.expiry))
    }

    #[inline]
    fn get_part(
        &self,
        database: DatabaseIndex,
        key: &[u8],
        now: impl Fn() -> UnixMs,
        part: impl Fn(u64) -> Range<u64>,
        value: &mut Vec<u8>,
    ) -> Outcome<()> {
        // Of no view: it ends with this call, and without it a value that changes often could not
        // be copied.
        let pin = |block, _| PinSlots::pin(self.slots.as_ref()?, block);
        self.hold(database, &self.hasher.key(key), now, part, value, pin).map(|held| {
            if let Held::Pinned(pinned) = held {
                value.clear();
                value.extend_from_slice(&pinned);
            }
        })
    }

    /// Pins `block` for a view of `bytes` bytes, within what the views of the session may hold.
    #[inline]
    fn pin_in<S: Deref<Target = PinSlots>>(
        &self,
        slots: S,
        block: u64,
        bytes: u64,
    ) -> Option<Pin<S>> {
        let share = self.mapping.load(root::VIEW_SHARE).unwrap_or(0);
        PinSlots::pin_within(slots, block, bytes, share)
    }

    /// Has `pin` pin the block of the value, given its offset and the value's length, or copies
    /// `part` of it to `target`.
    #[inline]
    fn hold<S: Deref<Target = PinSlots>>(
        &self,
        database: DatabaseIndex,
        key: &Key<'_>,
        now: impl Fn() -> UnixMs,
        part: impl Fn(u64) -> Range<u64>,
        target: &mut impl Target,
        pin: impl Fn(u64, u64) -> Option<Pin<S>>,
    ) -> Outcome<Held<S>> {
        self.attempt(database, key, now, COUNTED, |walk, found| {
            let value_length = walk.string_length(found)?;
            let part = part(value_length);
            let (offset, length) = (found.value_at + part.start, part.end - part.start);
            let pinned = found.large.and_then(|large| pin(large.block(), found.value_length));
            if let Some(pin) = pinned {
                let start = self.mapping.range(offset, length)?;
                // It is made before the check that the pin came in time, and dropped, unread, if it
                // did not.
                return Ok(Held::Pinned(Pinned::new(start, length, pin)));
            }
            if found.large.is_some() {
                // Before a length makes the target grow by that much, it is known to be true.
                walk.check(found)?;
            }
            self.mapping.copy(offset, length, target)?;
            Ok(Held::Copied)
        })
    }

    /// Finds the entry of `key`, lets `act` read it, and checks again; anew while it changes. Some
    /// of those reads that are a use of the entry are reported.
    #[inline]
    fn attempt<T>(
        &self,
        database: DatabaseIndex,
        key: &Key<'_>,
        now: impl Fn() -> UnixMs,
        counts_access: bool,
        mut act: impl FnMut(&Walk, &Found) -> Result<T, Stop>,
    ) -> Outcome<T> {
        if u64::from(database.0) >= self.database_count {
            return Outcome::Absent;
        }
        let header = self.table_header(database, key);
        for _ in 0..ATTEMPTS_MAX {
            match self.read_once(header, key, &now, &mut act) {
                Ok(value) => {
                    if counts_access && access_reports::is_chosen() {
                        self.report(database, key);
                    }
                    return Outcome::Found(value);
                }
                Err(Stop::Changed) => std::hint::spin_loop(),
                Err(Stop::Absent) => return Outcome::Absent,
                Err(Stop::WrongType) => return Outcome::WrongType,
                Err(Stop::Off | Stop::Spilled | Stop::InTheMaking) => return Outcome::Busy,
                Err(Stop::NeedSegments) => return Outcome::NeedSegments,
            }
        }
        Outcome::Busy
    }

    /// Tells the server that `key` of `database` is used, where it wants to know.
    #[cold]
    fn report(&self, database: DatabaseIndex, key: &Key<'_>) {
        let period = self.mapping.load(root::TOUCH_PERIOD).unwrap_or(0);
        access_reports::choose_next(period, key.hash);
        if let (Some(slots), 1..) = (&self.slots, period) {
            slots.report(AccessReport::new(database, key));
        }
    }

    #[inline(always)]
    fn read_once<T>(
        &self,
        header: u64,
        key: &Key<'_>,
        now: &impl Fn() -> UnixMs,
        act: &mut impl FnMut(&Walk, &Found) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let walk = Walk::enter(self.mapping, self.view.epoch(), header, key.hash)?;
        let found = match walk.find(key)? {
            Chained::Found(found) => found,
            Chained::Nowhere(stop) => {
                walk.check_index()?;
                return Err(stop);
            }
        };
        if let Some(at) = found.expiry
            && at < now()
        {
            walk.check(&found)?;
            return Err(Stop::Absent);
        }
        linger(Rule::ReaderChecksBucket);
        linger(Rule::ReaderChecksLocation);
        let value = act(&walk, &found)?;
        walk.check(&found)?;
        Ok(value)
    }
}

/// The most shards that an arena has.
const SHARD_COUNT_MAX: u64 = 4096;

/// Returns the number of elements that stands behind a handle, if it does.
fn count_beside_handle(value: SharedBytes<'_>) -> Option<u64> {
    let all = value.positions();
    if all.len() >= 16 { value.word(all.start + 8) } else { None }
}

/// Returns which bytes GETRANGE with `start` and `end` means in a value of `length` bytes.
fn part_of(length: u64, start: i64, end: i64) -> Range<u64> {
    let length = length as i64;
    let from_end = |index: i64| if index < 0 { (length + index).max(0) } else { index };
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    if start > end || length == 0 { 0..0 } else { start as u64..end as u64 + 1 }
}
