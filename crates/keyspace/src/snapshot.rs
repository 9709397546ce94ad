//! The dataset as it was at one moment, while writes go on.
//!
//! At the cut all shards are locked once, and each part of a database notes how many home buckets
//! its table has. From then on the snapshot goes through these buckets, a few at a time, while a
//! write that is about to change a key first gives what is in the key's bucket to the snapshot,
//! unless it has that already: a bit for each bucket says so. What counts is the bucket in which a
//! key was at the cut, which follows from its hash alone; so buckets may split and merge, entries
//! may move, and databases may be swapped. The decision is docs/decisions/0019-snapshots.md.
//!
//! A large collection is gone through in pieces, too ([`collections::Walk`]): a change of its key
//! begins that, and from then on the collection gives what it is about to change. One that is
//! deleted meanwhile becomes the snapshot's own, and with one that moves to another shard goes how
//! far the snapshot is, even where that has been through the shard. In a file the parts of a value
//! stand side by side, so the snapshot goes through one collection at a time, and gives nothing
//! else meanwhile.
//!
//! *Not here*: the file. What a snapshot gives are encoded entries, and large strings that are held
//! where they lie.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use arena::layout::home_bucket;
use arena::{Entry, HeldValue, Table, ValueType};
use base::{BucketWalk, DatabaseIndex, Lsn, ShardIndex, UnixMs};
use collections::{Collection, Freed, Growth, KeptBytes, Walk, WalkKind, WalkStep};
use rdb::Version;
use rdb::file::EntryEncoder;

use crate::access_mark::{Tracking, idle_seconds};
use crate::eviction::policy::EvictionPolicy;
use crate::item::tail_of;
use crate::keyspace::Keyspace;
use crate::memory_limit::MemoryAccount;
use crate::object::{Content, Object, handle_of};
use crate::published::{DatabaseCounts, Published};
use crate::shard::{DatabaseShard, Shard};
use crate::store::Handle;

/// What writes may have left to a snapshot before it takes that first, in bytes.
const QUEUED_BYTES_MIN: u64 = 1 << 20;
/// The bytes of entries from which on more of them are another piece.
const PIECE_BYTES: usize = 32 << 10;

/// How a snapshot is taken.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotOptions {
    /// The version of its values.
    pub version: Version,
    /// Whether values are compressed.
    pub compresses: bool,
    /// What writes may leave to it, in bytes, and as much again of collections that were deleted:
    /// it ends where more is there already.
    pub queued_bytes_max: u64,
    /// The bytes of the largest value that is compressed while its shard is locked, and of the
    /// largest collection that is encoded at once where it can be gone through in pieces.
    pub whole_bytes_max: u64,
    /// The time.
    pub now: UnixMs,
}

/// Why a snapshot is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotEnd {
    /// A database was flushed: what was in it is gone. Another one may begin.
    Flushed,
    /// Writes have left more to it than it may keep, and it does not get rid of it.
    Overflow,
}

/// A snapshot runs already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRuns;

/// A snapshot that is being taken. It ends when it is dropped.
pub struct Snapshot<'k> {
    keyspace: &'k Keyspace,
    shared: Arc<SnapshotState>,
    lsn: Lsn,
    counts: Vec<(DatabaseIndex, DatabaseCounts)>,
    /// The shard that is gone through, or the number of shards.
    position: u16,
}

/// What a snapshot gives at once. Its memory is charged until it is dropped.
pub struct SnapshotBatch {
    /// The entries, in any order, but that the parts of a value follow its begin.
    pub pieces: Vec<SnapshotPiece>,
    bytes: u64,
    shared: Arc<SnapshotState>,
    /// What was deleted and is not needed any more, to be freed where no shard is locked.
    freed: Vec<Freed>,
}

/// Some of the entries of a database.
pub struct SnapshotPiece {
    /// The database, as it was called at the cut.
    pub database: DatabaseIndex,
    /// The entries.
    pub content: SnapshotContent,
}

/// What a piece of a snapshot is.
pub enum SnapshotContent {
    /// Entries as [`EntryEncoder`] makes them.
    Encoded(Vec<u8>),
    /// A large string, to be encoded where no shard is locked.
    Held(Box<HeldEntry>),
    /// The begin of an entry as [`EntryEncoder::begin_parts`] makes it: nothing but
    /// parts of its value comes before that is whole.
    Begin(Vec<u8>),
    /// Parts of a value, for [`EntryEncoder::put_parts`].
    Parts(WalkKind, Vec<u8>),
}

/// An entry whose value is held where it lies.
pub struct HeldEntry {
    /// What stands before the entry: when it was used.
    pub head: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
    /// When it expires.
    pub expires_at: Option<UnixMs>,
    /// Its value.
    pub value: HeldValue,
}

/// What the parts of a snapshot share.
struct SnapshotState {
    account: Arc<MemoryAccount>,
    options: SnapshotOptions,
    /// What was left to it and not taken yet, in bytes.
    queued_bytes: AtomicU64,
    /// The bytes of the large collections that were deleted and are kept for it.
    owned_bytes: AtomicU64,
    /// The large collections that are yet to be gone through, or to the end.
    large_count: AtomicU64,
    /// The shard of the large collection whose parts are being given, which is the first of that
    /// shard's. Changed while the shard is locked, and while both are where the collection moves.
    walked: Mutex<Option<ShardIndex>>,
    was_flushed: AtomicBool,
    has_overflowed: AtomicBool,
    /// It has ended or is about to: what moves between shards is not gone through any more.
    has_ended: AtomicBool,
    uses: FiledUses,
}

/// The part of a snapshot in one shard.
pub(crate) struct ShardSnapshot {
    shared: Arc<SnapshotState>,
    encoder: EntryEncoder,
    pieces: Vec<SnapshotPiece>,
    bytes: u64,
    /// The large collections that are yet to be gone through, or to the end.
    large: VecDeque<LargeWalk>,
}

/// A large collection that a snapshot has met.
struct LargeWalk {
    shared: Arc<SnapshotState>,
    /// What the database was called at the cut, and what it is called now.
    database: DatabaseIndex,
    database_now: DatabaseIndex,
    kind: WalkKind,
    /// The begin of its entry, until that is given.
    begin: Option<Vec<u8>>,
    place: LargePlace,
    walk: Walk,
    /// The bytes that are charged for it, without those that changes gave and its own.
    bytes: u64,
    /// Its own, once it was deleted.
    owned_bytes: u64,
}

/// How far a snapshot is with a large collection that is on its way to another place.
pub(crate) struct MovedWalk {
    large: LargeWalk,
    /// Whether its parts are being given.
    is_given: bool,
}

/// Where a large collection is.
enum LargePlace {
    /// In the store of its database in this shard, unless the walk has all that is left of it.
    Stored(Handle),
    /// It was deleted, and is kept for the snapshot alone.
    Owned(Box<Collection>),
    /// The snapshot is through, and frees it.
    Gone,
}

/// A large collection that is about to be gone through.
struct LargeEntry {
    handle: Handle,
    kind: WalkKind,
    begin: Vec<u8>,
}

/// How far a snapshot is with one part of a database.
pub(crate) struct SnapshotWalk {
    /// What the database was called at the cut.
    database: DatabaseIndex,
    /// Its home buckets.
    buckets: BucketWalk,
}

impl SnapshotWalk {
    /// Asks the cache for the entries of the bucket of `table` that comes next, and for the bucket
    /// behind that: what the present one takes to be encoded is about what they take to come.
    fn prefetch_upcoming(&self, table: &Table) {
        let bucket_count = self.buckets.bucket_count();
        if let Some(next) = self.buckets.upcoming(0) {
            table.prefetch_entries_of(bucket_count, next);
        }
        if let Some(later) = self.buckets.upcoming(1) {
            table.prefetch_bucket_of(bucket_count, later);
        }
    }
}

impl Keyspace {
    /// Begins a snapshot of this moment. `lsn` is given, while all shards are locked, the LSN of
    /// the last record of any shard, and returns that which the snapshot stands for. The caller
    /// holds no guard.
    ///
    /// # Errors
    /// When one runs already.
    pub fn begin_snapshot(
        &self,
        options: SnapshotOptions,
        lsn: impl FnOnce(Lsn) -> Lsn,
    ) -> Result<Snapshot<'_>, SnapshotRuns> {
        let policy = self.eviction_policy();
        let shared = Arc::new(SnapshotState {
            account: Arc::clone(&self.account),
            options,
            queued_bytes: AtomicU64::new(0),
            owned_bytes: AtomicU64::new(0),
            large_count: AtomicU64::new(0),
            walked: Mutex::new(None),
            was_flushed: AtomicBool::new(false),
            has_overflowed: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            uses: FiledUses::new(policy, options.now),
        });
        let mut guard = self.lock_all();
        let (mut runs, mut last) = (false, Lsn(0));
        guard.for_each_shard(|shard| {
            runs |= shard.snapshot.is_some();
            last = last.max(shard.last_write_lsn);
        });
        if runs {
            return Err(SnapshotRuns);
        }
        guard.for_each_shard(|shard| shard.begin_snapshot(&shared));
        let counts = self.databases().map(|database| (database, self.counts(database)));
        let counts = counts.filter(|(_, counts)| counts.keys > 0).collect();
        let lsn = lsn(last);
        Ok(Snapshot { keyspace: self, shared, lsn, counts, position: 0 })
    }
}

impl Snapshot<'_> {
    /// Returns the LSN of the last record that it has.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Returns how many keys each database had that had any.
    pub fn counts(&self) -> &[(DatabaseIndex, DatabaseCounts)] {
        &self.counts
    }

    /// Returns what writes have left to it and nobody has taken, in bytes, deleted collections
    /// among it.
    pub fn queued_bytes(&self) -> u64 {
        let SnapshotState { queued_bytes, owned_bytes, .. } = &*self.shared;
        queued_bytes.load(Ordering::Relaxed) + owned_bytes.load(Ordering::Relaxed)
    }

    /// Returns some more of the entries; `None` once all were returned. A shard is locked until
    /// `is_due` says that it was long enough, which is asked after each bucket. The caller holds
    /// no guard.
    ///
    /// # Errors
    /// When it cannot become whole any more.
    pub fn step(
        &mut self,
        mut is_due: impl FnMut() -> bool,
    ) -> Result<Option<SnapshotBatch>, SnapshotEnd> {
        self.shared.check()?;
        let shared = Arc::clone(&self.shared);
        let mut batch = SnapshotBatch { pieces: Vec::new(), bytes: 0, shared, freed: Vec::new() };
        let walked = *self.shared.walked();
        let was_everywhere = usize::from(self.position) == self.keyspace.shard_count();
        if let Some(index) = walked {
            let mut guard = self.keyspace.lock(index);
            // The collection may have moved just before: then this was the wrong shard.
            let is_here = *self.shared.walked() == walked;
            if is_here && guard.only().0.walk_large(&mut is_due, &mut batch) {
                *self.shared.walked() = None;
            }
        } else if self.queued_bytes() >= QUEUED_BYTES_MIN {
            self.collect(&mut batch);
        } else if was_everywhere {
            // Some may have moved to shards that it had been through.
            if self.shared.large_count.load(Ordering::Relaxed) == 0 {
                return Ok(None);
            }
            self.collect(&mut batch);
        } else {
            let mut guard = self.keyspace.lock(ShardIndex(self.position));
            let shard = guard.only().0;
            let is_done = shard.walk_snapshot(&mut is_due);
            let is_walked = shard.snapshot.as_mut().is_some_and(|part| part.give(&mut batch));
            if is_walked {
                *self.shared.walked() = Some(ShardIndex(self.position));
            } else if is_done {
                batch.freed.extend(shard.end_snapshot());
                self.position += 1;
            }
        }
        self.shared.check()?;
        Ok(Some(batch))
    }

    /// Takes what writes have left in all shards, up to the first that has a large collection.
    fn collect(&mut self, batch: &mut SnapshotBatch) {
        for index in self.keyspace.shard_indexes() {
            let mut guard = self.keyspace.lock(index);
            let part = guard.only().0.snapshot.as_mut();
            if part.is_some_and(|part| part.give(batch)) {
                *self.shared.walked() = Some(index);
                return;
            }
        }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A shard may be in the middle of a change: the process ends.
            return;
        }
        self.shared.has_ended.store(true, Ordering::Relaxed);
        for index in self.keyspace.shard_indexes() {
            let freed = self.keyspace.lock(index).only().0.end_snapshot();
            drop(freed);
        }
    }
}

impl SnapshotState {
    fn check(&self) -> Result<(), SnapshotEnd> {
        if self.was_flushed.load(Ordering::Relaxed) {
            return Err(SnapshotEnd::Flushed);
        }
        match self.has_overflowed.load(Ordering::Relaxed) {
            true => Err(SnapshotEnd::Overflow),
            false => Ok(()),
        }
    }

    fn walked(&self) -> MutexGuard<'_, Option<ShardIndex>> {
        self.walked.lock().expect("no holder of the place panics")
    }

    /// Notes that `bytes` more were left to it.
    fn queue(&self, bytes: u64) {
        if bytes > 0 {
            self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.account.charge(bytes);
        }
    }

    /// As [`SnapshotState::queue`], of what a change of a large collection gave; returns whether it
    /// may give more: not where too much was there before, as for keys.
    fn queue_parts(&self, bytes: u64) -> bool {
        let before = self.queued_bytes.load(Ordering::Relaxed);
        self.queue(bytes);
        let has_room = before <= self.options.queued_bytes_max;
        if !has_room {
            self.has_overflowed.store(true, Ordering::Relaxed);
        }
        has_room
    }

    /// Notes that `bytes` more of what was deleted are kept for it; returns whether there was room:
    /// what nobody gets back would have eviction go on until no key is left.
    fn own(&self, bytes: u64) -> bool {
        let before = self.owned_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.account.charge(bytes);
        let has_room = before <= self.options.queued_bytes_max;
        if !has_room {
            self.has_overflowed.store(true, Ordering::Relaxed);
        }
        has_room
    }

    fn disown(&self, bytes: u64) {
        self.owned_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.discharge(bytes);
    }

    fn discharge(&self, bytes: u64) {
        if bytes > 0 {
            self.account.discharge(bytes);
        }
    }
}

impl Drop for SnapshotBatch {
    fn drop(&mut self) {
        self.freed.clear();
        self.shared.discharge(self.bytes);
    }
}

impl ShardSnapshot {
    fn new(shared: Arc<SnapshotState>) -> ShardSnapshot {
        let SnapshotOptions { version, compresses, .. } = shared.options;
        ShardSnapshot {
            shared,
            encoder: EntryEncoder::new(version, compresses),
            pieces: Vec::new(),
            bytes: 0,
            large: VecDeque::new(),
        }
    }

    /// Moves what is there to `batch`; returns whether there is a large collection too, which is to
    /// be gone through next.
    fn give(&mut self, batch: &mut SnapshotBatch) -> bool {
        batch.pieces.append(&mut self.pieces);
        let bytes = std::mem::take(&mut self.bytes);
        self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        batch.bytes += bytes;
        !self.large.is_empty()
    }

    /// Takes what was in `bucket` of `part`, which is `database_now`.
    fn keep(
        &mut self,
        (database_now, part): (DatabaseIndex, &mut DatabaseShard),
        walk: &SnapshotWalk,
        bucket: u64,
        cx: &Published,
    ) {
        let database = walk.database;
        let mut encoded = self.open_piece(database);
        let (before, encoded_before) = (self.pieces.len(), encoded.capacity() as u64);
        let mut large = Vec::new();
        part.table.visit_bucket_of(walk.buckets.bucket_count(), bucket, &mut |entry| {
            if let Some(entry) = self.large_entry(part, &entry, cx) {
                return large.push(entry);
            }
            let held = self.keep_entry(part, entry, cx, &mut encoded);
            let content = held.map(|held| SnapshotContent::Held(Box::new(held)));
            self.pieces.extend(content.map(|content| SnapshotPiece { database, content }));
        });
        for entry in large {
            self.begin_large(entry, part, [database, database_now]);
        }
        let held_bytes: u64 = self.pieces[before..].iter().map(SnapshotPiece::memory_bytes).sum();
        let bytes = held_bytes + encoded.capacity() as u64 - encoded_before;
        if !encoded.is_empty() {
            self.pieces
                .push(SnapshotPiece { database, content: SnapshotContent::Encoded(encoded) });
        }
        self.bytes += bytes;
        self.shared.queue(bytes);
    }

    /// Returns the entry of a collection that is to be gone through in pieces.
    fn large_entry(
        &mut self,
        part: &DatabaseShard,
        entry: &Entry<'_>,
        published: &Published,
    ) -> Option<LargeEntry> {
        let handle = handle_of(entry)?;
        let object = part.object_of(*entry);
        let Content::Collection(collection) = object.content() else { return None };
        let SnapshotOptions { version, whole_bytes_max, .. } = self.shared.options;
        if object.memory_bytes() <= whole_bytes_max {
            return None;
        }
        let (kind, count) = collection.walk_form()?;
        if kind == WalkKind::List && !version.has_listpacks() {
            return None;
        }
        let mut begin = Vec::new();
        self.put_head(entry, published, &mut begin);
        self.encoder.begin_parts(entry.key(), entry.expiry(), (kind, count), &mut begin);
        Some(LargeEntry { handle, kind, begin })
    }

    /// Begins to go through the collection of `entry`; from now on it gives what changes.
    fn begin_large(
        &mut self,
        entry: LargeEntry,
        part: &mut DatabaseShard,
        [database, database_now]: [DatabaseIndex; 2],
    ) {
        let shared = Arc::clone(&self.shared);
        let growth = Box::new(move |growth| match growth {
            Growth::Copied(bytes) => shared.queue_parts(bytes),
            Growth::Left(bytes) => shared.own(bytes),
        });
        let LargeEntry { handle, kind, begin } = entry;
        let walk = part.store.walkable(handle).begin_walk(growth);
        let bytes = begin.capacity() as u64 + walk.memory_bytes();
        self.shared.account.charge(bytes);
        self.shared.large_count.fetch_add(1, Ordering::Relaxed);
        let (shared, place) = (Arc::clone(&self.shared), LargePlace::Stored(handle));
        let begin = Some(begin);
        self.large.push_back(LargeWalk {
            shared,
            database,
            database_now,
            kind,
            begin,
            place,
            walk,
            bytes,
            owned_bytes: 0,
        });
    }

    /// Keeps `collection`, which was deleted, until it was gone through; returns it where this
    /// snapshot has it already, and where it ends, as too much is kept.
    fn adopt(&mut self, mut collection: Collection) -> Option<Collection> {
        if !collection.is_walked() {
            return Some(collection);
        }
        let position = self.large.iter().position(|large| large.walk.is_of(&mut collection));
        let Some(position) = position else { return Some(collection) };
        let bytes = collection.memory_bytes();
        let has_room = self.shared.own(bytes);
        if !has_room || self.shared.check().is_err() {
            self.shared.disown(bytes);
            drop(self.large.remove(position));
            return Some(collection);
        }
        let large = &mut self.large[position];
        large.owned_bytes = bytes;
        large.place = LargePlace::Owned(Box::new(collection));
        None
    }

    /// Takes the last piece, where entries of `database` may be added to it.
    fn open_piece(&mut self, database: DatabaseIndex) -> Vec<u8> {
        let last = self.pieces.pop_if(|piece| {
            let is_open = matches!(&piece.content, SnapshotContent::Encoded(bytes)
                if bytes.len() < PIECE_BYTES);
            is_open && piece.database == database
        });
        match last.map(|piece| piece.content) {
            Some(SnapshotContent::Encoded(bytes)) => bytes,
            _ => Vec::new(),
        }
    }

    /// Appends `entry` to `encoded`, or returns it where its value can be held.
    fn keep_entry(
        &mut self,
        part: &DatabaseShard,
        entry: Entry<'_>,
        published: &Published,
        encoded: &mut Vec<u8>,
    ) -> Option<HeldEntry> {
        let expires_at = entry.expiry();
        // An entry of another type is large, too, where its key is long.
        if entry.value_type() == ValueType::String
            && !entry.header().is_item()
            && let Some(value) = part.table.hold_entry(&entry)
        {
            let mut head = Vec::new();
            self.put_head(&entry, published, &mut head);
            return Some(HeldEntry { head, key: entry.key().to_vec(), expires_at, value });
        }
        self.put_head(&entry, published, encoded);
        let object: Object<'_> = part.object_of(entry);
        let content = object.content();
        let is_long = object.memory_bytes() > self.shared.options.whole_bytes_max;
        match is_long {
            // To compress it takes several times as long as to copy it.
            true => EntryEncoder::new(self.shared.options.version, false).put(
                entry.key(),
                expires_at,
                content.stored(),
                encoded,
            ),
            false => self.encoder.put(entry.key(), expires_at, content.stored(), encoded),
        }
        None
    }
}

impl ShardSnapshot {
    fn put_head(&self, entry: &Entry<'_>, published: &Published, out: &mut Vec<u8>) {
        self.shared.uses.put_head(&self.encoder, entry, &published.tracking, out);
    }
}

/// What a file says of when its entries were used.
#[derive(Clone, Copy)]
pub(crate) struct FiledUses {
    /// The moment of the file.
    now: UnixMs,
    /// Whether entries say for how long they have not been used.
    tells_idle: bool,
}

impl FiledUses {
    pub fn new(policy: EvictionPolicy, now: UnixMs) -> FiledUses {
        FiledUses { now, tells_idle: policy.dates_uses() }
    }

    /// Appends what stands before `entry`: what is behind its value where it is an item, when it
    /// was used, for how long it may be stale, and what it costs.
    pub fn put_head(
        self,
        encoder: &EntryEncoder,
        entry: &Entry<'_>,
        tracking: &Tracking,
        out: &mut Vec<u8>,
    ) {
        if let Some(tail) = tail_of(entry) {
            encoder.put_item_tail(&tail.to_bytes(), out);
        }
        let idle = self.tells_idle.then(|| idle_seconds(entry.mark(), self.now));
        let counter = tracking.does_count().then(|| tracking.counter(entry.mark(), self.now));
        encoder.put_last_use(idle, counter, out);
        encoder.put_grace(entry.grace().ms(), out);
        encoder.put_cost(entry.cost().number(), out);
    }
}

impl LargeWalk {
    /// Goes on through `stored`, which is the collection where it is in a store, and appends some
    /// more of its parts to `batch`; returns whether there is none left.
    fn step(
        &mut self,
        stored: Option<&mut Collection>,
        is_due: &mut dyn FnMut() -> bool,
        batch: &mut SnapshotBatch,
    ) -> bool {
        let database = self.database;
        let begin = self.begin.take().map(SnapshotContent::Begin);
        batch.pieces.extend(begin.map(|content| SnapshotPiece { database, content }));
        let collection = match &mut self.place {
            LargePlace::Owned(collection) => Some(&mut **collection),
            LargePlace::Stored(_) | LargePlace::Gone => stored,
        };
        let (kind, mut bytes) = (self.kind, 0);
        let WalkStep { is_done, released, freed } =
            self.walk.step(collection, is_due, &mut |parts| {
                bytes += parts.capacity() as u64;
                let content = SnapshotContent::Parts(kind, parts);
                batch.pieces.push(SnapshotPiece { database, content });
            });
        self.shared.account.charge(bytes);
        batch.bytes += bytes;
        // What was kept is in the batch now, or is freed with it.
        self.shared.queued_bytes.fetch_sub(released.copied, Ordering::Relaxed);
        self.shared.owned_bytes.fetch_sub(released.left, Ordering::Relaxed);
        match freed.is_empty() {
            true => self.shared.discharge(released.copied),
            false => batch.bytes += released.copied + released.left,
        }
        batch.freed.extend(freed);
        if is_done {
            let owned = std::mem::take(&mut self.owned_bytes);
            self.shared.owned_bytes.fetch_sub(owned, Ordering::Relaxed);
            batch.bytes += std::mem::take(&mut self.bytes) + owned;
            let collection = self.take_owned();
            batch.freed.extend(collection.map(|collection| Box::new(collection) as Freed));
        }
        is_done
    }

    /// Takes the collection out, where it was deleted and left to the snapshot.
    fn take_owned(&mut self) -> Option<Collection> {
        match std::mem::replace(&mut self.place, LargePlace::Gone) {
            LargePlace::Owned(collection) => Some(*collection),
            LargePlace::Stored(_) | LargePlace::Gone => None,
        }
    }

    /// Returns where the collection is stored, unless it is not or the walk has all of it.
    fn stored_at(&self) -> Option<(DatabaseIndex, Handle)> {
        match self.place {
            LargePlace::Stored(handle) if !self.walk.is_whole() => {
                Some((self.database_now, handle))
            }
            _ => None,
        }
    }
}

impl Drop for LargeWalk {
    fn drop(&mut self) {
        drop(self.take_owned());
        let KeptBytes { copied, left } = self.walk.kept_bytes();
        self.shared.large_count.fetch_sub(1, Ordering::Relaxed);
        self.shared.queued_bytes.fetch_sub(copied, Ordering::Relaxed);
        self.shared.disown(self.owned_bytes + left);
        self.shared.discharge(self.bytes + copied);
    }
}

impl Drop for ShardSnapshot {
    fn drop(&mut self) {
        self.shared.discharge(self.bytes);
    }
}

impl SnapshotPiece {
    fn memory_bytes(&self) -> u64 {
        match &self.content {
            SnapshotContent::Encoded(bytes) => bytes.capacity() as u64,
            SnapshotContent::Held(held) => (held.head.capacity() + held.key.capacity()) as u64,
            SnapshotContent::Begin(bytes) | SnapshotContent::Parts(_, bytes) => {
                bytes.capacity() as u64
            }
        }
    }
}

impl Shard {
    fn begin_snapshot(&mut self, shared: &Arc<SnapshotState>) {
        let mut has_keys = false;
        for database in (0..base::DATABASE_COUNT_MAX as u8).map(DatabaseIndex) {
            let Some(part) = self.database_mut(database) else { continue };
            if !part.table.is_empty() {
                let buckets = BucketWalk::new(part.table.bucket_count());
                let walk = SnapshotWalk { database, buckets };
                part.snapshot_walk = Some(Box::new(walk));
                has_keys = true;
            }
        }
        self.snapshot = has_keys.then(|| Box::new(ShardSnapshot::new(Arc::clone(shared))));
    }

    /// Ends the snapshot that runs; returns what it kept, to be freed where no shard is locked.
    #[must_use = "it is to be freed where no shard is locked"]
    pub fn end_snapshot(&mut self) -> Vec<Freed> {
        let (snapshot, mut freed) = (self.snapshot.take(), Vec::new());
        for large in snapshot.iter().flat_map(|snapshot| &snapshot.large) {
            if let Some((database, handle)) = large.stored_at() {
                freed.extend(self.stored(database, handle).end_walk());
            }
        }
        // It is charged for all of them, and comes last.
        freed.extend(snapshot.map(|snapshot| snapshot as Freed));
        for database in (0..base::DATABASE_COUNT_MAX as u8).map(DatabaseIndex) {
            if let Some(part) = self.database_mut(database) {
                part.snapshot_walk = None;
            }
        }
        freed
    }

    /// Goes through buckets until `is_due`; returns whether there is none left.
    fn walk_snapshot(&mut self, is_due: &mut impl FnMut() -> bool) -> bool {
        let Some(mut snapshot) = self.snapshot.take() else { return true };
        let published = Arc::clone(&self.published);
        let mut is_done = true;
        'parts: for database in (0..base::DATABASE_COUNT_MAX as u8).map(DatabaseIndex) {
            let Some(part) = self.database_mut(database) else { continue };
            let Some(mut walk) = part.snapshot_walk.take() else { continue };
            while let Some(bucket) = walk.buckets.advance() {
                if walk.buckets.take(bucket) {
                    let part = self.database_mut(database).expect("just looked at");
                    walk.prefetch_upcoming(&part.table);
                    snapshot.keep((database, part), &walk, bucket, &published);
                }
                if is_due() || !snapshot.large.is_empty() {
                    is_done = false;
                    let part = self.database_mut(database).expect("just looked at");
                    part.snapshot_walk = Some(walk);
                    break 'parts;
                }
            }
        }
        self.snapshot = Some(snapshot);
        is_done
    }

    /// Goes on through the first of the large collections, and appends some of its parts to
    /// `batch`; returns whether there is none left.
    fn walk_large(&mut self, is_due: &mut dyn FnMut() -> bool, batch: &mut SnapshotBatch) -> bool {
        let Some(mut snapshot) = self.snapshot.take() else { return true };
        let is_done = snapshot.large.front_mut().is_none_or(|large| {
            let stored = large.stored_at().map(|(database, handle)| self.stored(database, handle));
            large.step(stored, is_due, batch)
        });
        if is_done {
            snapshot.large.pop_front();
        }
        self.snapshot = Some(snapshot);
        is_done
    }

    fn stored(&mut self, database: DatabaseIndex, handle: Handle) -> &mut Collection {
        let part = self.database_mut(database).expect("a collection is in it");
        part.store.walkable(handle)
    }

    /// Leaves `collection`, which was deleted, to the snapshot where that has yet to go through it;
    /// returns it otherwise.
    pub fn leave_collection(&mut self, collection: Collection) -> Option<Collection> {
        match &mut self.snapshot {
            Some(snapshot) => snapshot.adopt(collection),
            None => Some(collection),
        }
    }

    /// Takes how far the snapshot is with `collection`, which is about to be stored elsewhere,
    /// where that has yet to go through it: [`Shard::continue_walk`] follows.
    pub fn take_walk(&mut self, collection: &mut Collection) -> Option<MovedWalk> {
        let index = self.index();
        let ShardSnapshot { shared, large, .. } = &mut **self.snapshot.as_mut()?;
        let position = large.iter().position(|large| large.walk.is_of(collection))?;
        let is_given = position == 0 && *shared.walked() == Some(index);
        Some(MovedWalk { large: large.remove(position)?, is_given })
    }

    /// Has the snapshot go on where its collection is now, at `handle` of `database`. The caller
    /// has not let go of the shard from which it was taken.
    pub fn continue_walk(&mut self, moved: MovedWalk, database: DatabaseIndex, handle: Handle) {
        let MovedWalk { mut large, is_given } = moved;
        let shared = Arc::clone(&large.shared);
        if shared.has_ended.load(Ordering::Relaxed) {
            return drop(self.stored(database, handle).end_walk());
        }
        (large.database_now, large.place) = (database, LargePlace::Stored(handle));
        if is_given {
            *shared.walked() = Some(self.index());
        }
        // The snapshot may have been through this shard.
        let snapshot = self.snapshot.get_or_insert_with(|| Box::new(ShardSnapshot::new(shared)));
        match is_given {
            true => snapshot.large.push_front(large),
            false => snapshot.large.push_back(large),
        }
    }

    /// Has the snapshot that runs know that two databases were exchanged.
    pub fn note_swap(&mut self, a: DatabaseIndex, b: DatabaseIndex) {
        for large in self.snapshot.iter_mut().flat_map(|snapshot| &mut snapshot.large) {
            large.database_now = match large.database_now {
                database if database == a => b,
                database if database == b => a,
                database => database,
            };
        }
    }

    /// Gives what is in the bucket of the key of `hash` in `database`, which is about to change, to
    /// the snapshot that runs, where it does not have it. Without one, a branch.
    #[inline]
    pub fn before_change(&mut self, database: DatabaseIndex, hash: u64) {
        if self.snapshot.is_some() {
            self.leave_to_snapshot(database, hash);
        }
    }

    #[cold]
    fn leave_to_snapshot(&mut self, database: DatabaseIndex, hash: u64) {
        let Some(part) = self.database_mut(database) else { return };
        let Some(mut walk) = part.snapshot_walk.take() else { return };
        let bucket = home_bucket(hash, walk.buckets.bucket_count());
        if walk.buckets.take(bucket) {
            let mut snapshot = self.snapshot.take().expect("the caller has looked");
            let shared = Arc::clone(&snapshot.shared);
            let queued = shared.queued_bytes.load(Ordering::Relaxed);
            if queued > shared.options.queued_bytes_max {
                shared.has_overflowed.store(true, Ordering::Relaxed);
            } else {
                let published = Arc::clone(&self.published);
                let part = self.database_mut(database).expect("just looked at");
                snapshot.keep((database, part), &walk, bucket, &published);
            }
            self.snapshot = Some(snapshot);
        }
        let part = self.database_mut(database).expect("just looked at");
        part.snapshot_walk = Some(walk);
    }

    /// Ends the snapshot that runs where it has yet to take keys of `database`, which is about to
    /// be flushed.
    pub fn before_flush(&mut self, database: DatabaseIndex) {
        let has_buckets = self.database(database).is_some_and(|part| part.snapshot_walk.is_some());
        let Some(snapshot) = &mut self.snapshot else { return };
        let count = snapshot.large.len();
        snapshot.large.retain(|large| large.stored_at().is_none_or(|(at, _)| at != database));
        if has_buckets || snapshot.large.len() < count {
            snapshot.shared.was_flushed.store(true, Ordering::Relaxed);
        }
    }
}
