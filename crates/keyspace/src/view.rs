//! Reading one database through a guard. Nothing here changes the dataset: a key that has expired
//! is absent by time. A lookup records that it has found one, and the holder of the guard removes
//! it after the read ([`crate::Guard::remove_expired`]), or a sweep does.

use std::cell::Cell;
use std::fmt;

use arena::{AccessMark, Entry, EntryId, HeldValue, Table, ValueType};
use base::{DatabaseIndex, Key, KeyHasher, ShardIndex, UnixMs};

use collections::{Rules, ScoreSource, Set, SortedSet};
use rdb::Version;

use crate::access_mark::idle_seconds;
use crate::eviction::policy::KeyEvent;
use crate::guard::{KEYS_AHEAD, ShardsRef};
use crate::item::{text_of, text_of_item};
use crate::object::{Content, Kind, Object, kind_of};
use crate::recorder::Recorder;
use crate::shard::{DatabaseShard, Shard, SlotCount, is_expired, is_over};

/// The key holds a value of another type than the operation works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

impl fmt::Display for WrongType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Operation against a key holding the wrong kind of value")
    }
}

impl std::error::Error for WrongType {}

/// One database as it is at one time.
#[derive(Clone, Copy)]
pub struct ReadView<'g> {
    shards: ShardsRef<'g>,
    database: DatabaseIndex,
    now: UnixMs,
    counts_access: bool,
    copies: Option<&'g PrivateCopies>,
    /// Set by a lookup that meets an expired key.
    saw_expired: &'g Cell<bool>,
}

/// Copies of values that clients can write, for one read that found no room to own them.
#[derive(Debug, Default)]
pub struct PrivateCopies {
    values: Vec<(Box<[u8]>, Vec<u8>)>,
}

impl PrivateCopies {
    /// Returns that of `key`.
    fn of(&self, key: &Key<'_>) -> Option<&[u8]> {
        let found = self.values.iter().find(|(name, _)| **name == *key.bytes);
        found.map(|(_, value)| &value[..])
    }
}

impl<'g> ReadView<'g> {
    #[inline]
    pub(crate) fn new(
        shards: ShardsRef<'g>,
        recorder: &'g Recorder,
        database: DatabaseIndex,
        now: UnixMs,
    ) -> Self {
        let saw_expired = recorder.saw_expired();
        ReadView { shards, database, now, counts_access: true, copies: None, saw_expired }
    }

    /// Returns copies of those of the values at `keys` that a client can write.
    pub fn copy_adopted(&self, keys: &[Key<'_>]) -> PrivateCopies {
        let mut copies = PrivateCopies::default();
        for key in keys {
            let Some(object) = self.inspect(key).filter(|object| object.is_adopted()) else {
                continue;
            };
            if copies.of(key).is_none() {
                let mut value = Vec::new();
                object.value_or_copy(&mut value);
                copies.values.push((key.bytes.into(), value));
            }
        }
        copies
    }

    /// Returns the same view, which gives `copies` out for values that a client can write.
    pub fn with_copies(self, copies: &'g PrivateCopies) -> ReadView<'g> {
        ReadView { copies: Some(copies), ..self }
    }

    /// Returns the same view, whose lookups do not count as uses.
    pub fn without_touch(self) -> ReadView<'g> {
        self.counting_access(false)
    }

    /// Returns the same view, whose lookups count as uses: TOUCH is for nothing else.
    pub fn with_touch(self) -> ReadView<'g> {
        self.counting_access(true)
    }

    /// Returns the same view, whose lookups count as uses or not.
    #[inline]
    pub(crate) fn counting_access(self, counts_access: bool) -> ReadView<'g> {
        ReadView { counts_access, ..self }
    }

    /// Returns `keys` in their order, and asks the cache for the entries of those behind before it
    /// gives some. For commands whose rows say that they prefetch: the first are asked for already.
    pub fn ahead<'k>(self, keys: &'k [Key<'k>]) -> impl Iterator<Item = &'k Key<'k>> {
        let mut next = keys;
        keys.chunks(KEYS_AHEAD).flat_map(move |chunk| {
            next = &next[chunk.len()..];
            self.shards.prefetch(&next[..next.len().min(KEYS_AHEAD)], self.database);
            chunk
        })
    }

    /// Returns the database.
    pub fn database(&self) -> DatabaseIndex {
        self.database
    }

    /// Returns the time that decides what has expired.
    pub fn now(&self) -> UnixMs {
        self.now
    }

    /// Returns the entry at `key` and marks it as used just now; counts a hit or a miss.
    #[inline]
    pub fn entry(&self, key: &Key<'_>) -> Option<Entry<'g>> {
        let shard = self.shards.shard(key.shard);
        let found = find(shard, self.database, key, self.now, self.counts_access, self.saw_expired);
        count_lookup(shard, self.database, key, found.is_some());
        found
    }

    /// As [`ReadView::entry`], but leaves no mark: TTL, TYPE, EXISTS and OBJECT look without use.
    pub fn peek(&self, key: &Key<'_>) -> Option<Object<'g>> {
        let shard = self.shards.shard(key.shard);
        let counts_access = false;
        let found = find(shard, self.database, key, self.now, counts_access, self.saw_expired);
        count_lookup(shard, self.database, key, found.is_some());
        let part = shard.database(self.database)?;
        Some(part.object_of(found?))
    }

    /// Returns what `key` holds, of any type, marked as used; counts a hit or a miss.
    pub fn content(&self, key: &Key<'_>) -> Option<Content<'g>> {
        let entry = self.entry(key)?;
        if entry.is_adopted() {
            let copies = self.copies.expect("what is not owned has been copied");
            let copy = copies.of(key).expect("what is not owned has been copied");
            return Some(Content::String(copy.into()));
        }
        Some(self.part(key).expect("it has an entry").object_of(entry).content())
    }

    /// Returns the string at `key`, marked as used; counts a hit or a miss.
    ///
    /// # Errors
    /// When the key holds another type.
    #[inline]
    pub fn string(&self, key: &Key<'_>) -> Result<Option<&'g [u8]>, WrongType> {
        self.entry(key).map(|entry| self.string_in(key, entry)).transpose()
    }

    /// Returns the string in `entry`, which is that of `key`.
    #[inline]
    pub(crate) fn string_in(&self, key: &Key<'_>, entry: Entry<'g>) -> Result<&'g [u8], WrongType> {
        if entry.is_adopted() {
            let copies = self.copies.expect("what is not owned has been copied");
            return Ok(copies.of(key).expect("what is not owned has been copied"));
        }
        string_of(entry)
    }

    /// Returns the length of the string at `key` in bytes, marked as used; counts a hit or a miss.
    ///
    /// # Errors
    /// When the key holds another type.
    #[inline]
    pub fn string_length(&self, key: &Key<'_>) -> Result<Option<u64>, WrongType> {
        self.entry(key).map(string_length_of).transpose()
    }

    /// Holds the value at `key` where it lies, beyond the guard. `None` where there is none, where
    /// it is small, and where the process holds as many as it can: the caller copies instead.
    pub fn hold(&self, key: &Key<'_>) -> Option<HeldValue> {
        self.hold_by(key, Table::hold)
    }

    /// As [`ReadView::hold`], for one who holds many values already: `None` also where the process
    /// can hold only a few more.
    pub fn hold_sparing(&self, key: &Key<'_>) -> Option<HeldValue> {
        self.hold_by(key, Table::hold_sparing)
    }

    fn hold_by(
        &self,
        key: &Key<'_>,
        hold: impl FnOnce(&Table, EntryId) -> Option<HeldValue>,
    ) -> Option<HeldValue> {
        let part = self.part(key)?;
        let id = part.table.find(key.hash, key.bytes)?;
        let held = hold(&part.table, id)?;
        let entry = part.table.entry(id);
        Some(match entry.header().is_item() {
            // What lies behind the value is no part of it.
            true => held.narrow(0..text_of(&entry).len()),
            false => held,
        })
    }

    /// Returns the entry at `key`, expired or not; neither marks nor counts (DEBUG, MEMORY).
    pub fn inspect(&self, key: &Key<'_>) -> Option<Object<'g>> {
        let part = self.part(key)?;
        Some(part.object(part.table.find(key.hash, key.bytes)?))
    }

    /// Returns the collection at `key`, marked as used; counts a hit or a miss.
    ///
    /// # Errors
    /// When the key holds another type.
    #[inline]
    pub fn collection<K: Kind>(&self, key: &Key<'_>) -> Result<Option<K::View<'g>>, WrongType> {
        let Some(entry) = self.entry(key) else { return Ok(None) };
        let store = &self.part(key).expect("it has an entry").store;
        kind_of::<K>(&entry, store, self.now).map(Some)
    }

    /// Returns the set or the sorted set at `key`, marked as used; counts a hit or a miss.
    ///
    /// # Errors
    /// When the key holds another type.
    pub fn scores(&self, key: &Key<'_>) -> Result<Option<ScoreSource<'g>>, WrongType> {
        let Some(entry) = self.entry(key) else { return Ok(None) };
        let store = &self.part(key).expect("it has an entry").store;
        match entry.value_type() {
            ValueType::Set => {
                kind_of::<Set>(&entry, store, self.now).map(|set| Some(ScoreSource::Set(set)))
            }
            _ => kind_of::<SortedSet>(&entry, store, self.now)
                .map(|set| Some(ScoreSource::SortedSet(set))),
        }
    }

    /// Returns how collections in the shard of `key` are stored.
    #[inline]
    pub fn rules(&self, key: &Key<'_>) -> &'g Rules {
        &self.shards.shard(key.shard).rules
    }

    /// Returns whether the shard is locked, so that its keys can be read.
    pub fn holds(&self, shard: ShardIndex) -> bool {
        self.shards.holds(shard)
    }

    /// Returns what makes keys out of bytes. `key` is one whose shard is locked.
    pub fn hasher(&self, key: &Key<'_>) -> &'g KeyHasher {
        self.shards.shard(key.shard).account().arena().hasher()
    }

    /// Returns the version of the format in which values leave as bytes. `key` is one whose shard
    /// is locked.
    pub fn export_version(&self, key: &Key<'_>) -> Version {
        self.shards.shard(key.shard).account().export_version()
    }

    /// Returns for how many seconds `entry`, which is that of `key`, has not been used; `None`
    /// where the policy keeps something else in its mark.
    pub fn idle_seconds(&self, key: &Key<'_>, entry: &Entry<'_>) -> Option<u64> {
        let mark = self.shards.shard(key.shard).dated(entry.mark())?;
        Some(idle_seconds(mark, self.now))
    }

    /// Returns the counter of accesses of `entry`, which is that of `key`; `None` where the policy
    /// does not have accesses counted. It is a logarithm, how fine the policy says.
    pub fn access_counter(&self, key: &Key<'_>, entry: &Entry<'_>) -> Option<u8> {
        let shard = self.shards.shard(key.shard);
        let tracking = &shard.published.tracking;
        match tracking.does_count() {
            true => Some(tracking.counter(entry.mark(), self.now)),
            false => shard.policy.frequency(entry.mark()),
        }
    }

    /// Returns the copy of the value at `key`, which a client can write.
    pub(crate) fn copy_of(&self, key: &Key<'_>) -> &'g [u8] {
        let copies = self.copies.expect("what is not owned has been copied");
        copies.of(key).expect("what is not owned has been copied")
    }

    /// Notes that a lookup has met an expired key.
    pub(crate) fn note_expired(&self) {
        self.saw_expired.set(true);
    }

    /// Returns whether lookups count as uses.
    pub(crate) fn does_count_access(&self) -> bool {
        self.counts_access
    }

    /// Returns the shards that are held.
    pub(crate) fn shards(&self) -> ShardsRef<'g> {
        self.shards
    }

    /// Returns the keys and bytes in the slot of `key`.
    pub fn slot_count(&self, key: &Key<'_>) -> SlotCount {
        let part = self.part(key);
        part.map(|part| part.slots.of(key.slot)).unwrap_or_default()
    }

    /// Returns what the shard of `key` has of the database.
    pub(crate) fn part(&self, key: &Key<'_>) -> Option<&'g DatabaseShard> {
        self.shards.shard(key.shard).database(self.database)
    }
}

/// Returns the entry at `key` unless it has expired at `now`, which is noted in `saw_expired`;
/// marks it as used where the lookup `counts_access`. Every read passes here: a call costs it one
/// percent.
#[inline(always)]
pub(crate) fn find<'s>(
    shard: &'s Shard,
    database: DatabaseIndex,
    key: &Key<'_>,
    now: UnixMs,
    counts_access: bool,
    saw_expired: &Cell<bool>,
) -> Option<Entry<'s>> {
    let part = shard.database(database)?;
    let id = part.table.find(key.hash, key.bytes)?;
    let entry = part.table.entry(id);
    if is_expired(&entry, now) {
        if is_over(&entry, now) {
            saw_expired.set(true);
        }
        return None;
    }
    if counts_access {
        // Written only when it has changed: a hot entry's line stays clean between.
        entry.touch(shard.used(database, key.hash, entry, now, KeyEvent::Used(1)));
    }
    Some(entry)
}

#[inline]
pub(crate) fn count_lookup(shard: &Shard, database: DatabaseIndex, key: &Key<'_>, found: bool) {
    let published = &shard.published;
    if found {
        published.hits.add(1);
    } else {
        published.misses.add(1);
        shard.tell_policy(database, key.hash, AccessMark::default(), KeyEvent::Missed);
    }
}

/// Returns the string in `entry`.
#[inline]
pub(crate) fn string_of(entry: Entry<'_>) -> Result<&[u8], WrongType> {
    match entry.header().type_bits() == ValueType::String as u64 {
        true => Ok(entry.value()),
        false => text_of_item(entry),
    }
}

/// Returns the length of the string in `entry`.
#[inline]
pub(crate) fn string_length_of(entry: Entry<'_>) -> Result<u64, WrongType> {
    match entry.header().type_bits() == ValueType::String as u64 {
        true => Ok(entry.value_length()),
        false => text_of_item(entry).map(|text| text.len() as u64),
    }
}
