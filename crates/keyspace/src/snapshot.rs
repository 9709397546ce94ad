//! The dataset as it was at one moment, while writes go on.
//!
//! At the cut all shards are locked once, and each part of a database notes how many home buckets
//! its table has. From then on the snapshot goes through these buckets, a few at a time, while a
//! write that is about to change a key first gives what is in the key's bucket to the snapshot,
//! unless it has that already: a bit for each bucket says so. What counts is the bucket in which a
//! key was at the cut, which follows from its hash alone; so buckets may split and merge, entries
//! may move, and databases may be swapped. The decision is docs/decisions/0019-snapshots.md.
//!
//! *Not here*: the file. What a snapshot gives are encoded entries, and large strings that are held
//! where they lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arena::layout::home_bucket;
use arena::{Entry, HeldValue};
use base::{DatabaseIndex, Lsn, ShardIndex, UnixMs};
use rdb::Version;
use rdb::file::EntryEncoder;

use crate::access_mark::idle_seconds;
use crate::item::tail_of;
use crate::keyspace::Keyspace;
use crate::memory_limit::MemoryAccount;
use crate::object::Object;
use crate::published::{DatabaseCounts, Published};
use crate::shard::{DatabaseShard, Shard};

/// What writes may have left to a snapshot before it takes that first, in bytes.
const QUEUED_BYTES_MIN: u64 = 1 << 20;
/// The bytes of entries from which on more of them are another piece.
const PIECE_BYTES: usize = 32 << 10;
/// The collection from which on nothing is compressed while its shard is locked, in bytes.
const COMPRESSED_BYTES_MAX: u64 = 64 << 10;

/// How a snapshot is taken.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotOptions {
    /// The version of its values.
    pub version: Version,
    /// Whether values are compressed.
    pub compresses: bool,
    /// What writes may leave to it, in bytes: it ends where more is there already.
    pub queued_bytes_max: u64,
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
    /// The entries, in any order.
    pub pieces: Vec<SnapshotPiece>,
    bytes: u64,
    shared: Arc<SnapshotState>,
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
    was_flushed: AtomicBool,
    has_overflowed: AtomicBool,
    /// Whether entries say for how long they have not been used.
    tells_idle: bool,
}

/// The part of a snapshot in one shard.
pub(crate) struct ShardSnapshot {
    shared: Arc<SnapshotState>,
    encoder: EntryEncoder,
    pieces: Vec<SnapshotPiece>,
    bytes: u64,
}

/// How far a snapshot is with one part of a database.
pub(crate) struct SnapshotWalk {
    /// What the database was called at the cut.
    database: DatabaseIndex,
    /// How many home buckets there were.
    bucket_count: u64,
    /// The first that was not gone through.
    next: u64,
    /// A bit for each bucket whose entries the snapshot has.
    taken: Vec<u64>,
}

impl SnapshotWalk {
    fn new(database: DatabaseIndex, bucket_count: u64) -> SnapshotWalk {
        let taken = vec![0; bucket_count.div_ceil(64) as usize];
        SnapshotWalk { database, bucket_count, next: 0, taken }
    }

    /// Returns whether the entries of `bucket` are yet to be taken, and notes that they are.
    fn take(&mut self, bucket: u64) -> bool {
        let (word, bit) = (&mut self.taken[(bucket / 64) as usize], 1 << (bucket % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
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
            was_flushed: AtomicBool::new(false),
            has_overflowed: AtomicBool::new(false),
            tells_idle: policy.dates_uses(),
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
        Ok(Snapshot { keyspace: self, shared, lsn: lsn(last), counts, position: 0 })
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

    /// Returns what writes have left to it and nobody has taken, in bytes.
    pub fn queued_bytes(&self) -> u64 {
        self.shared.queued_bytes.load(Ordering::Relaxed)
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
        let mut pieces = Vec::new();
        let mut bytes = 0;
        if self.queued_bytes() >= QUEUED_BYTES_MIN {
            for index in self.position..self.keyspace.shard_count() as u16 {
                let mut guard = self.keyspace.lock(ShardIndex(index));
                let shard = guard.only().0;
                bytes += shard.snapshot.as_mut().map_or(0, |part| part.give(&mut pieces));
            }
        } else {
            if usize::from(self.position) == self.keyspace.shard_count() {
                return Ok(None);
            }
            let mut guard = self.keyspace.lock(ShardIndex(self.position));
            let shard = guard.only().0;
            let is_done = shard.walk_snapshot(&mut is_due);
            bytes += shard.snapshot.as_mut().map_or(0, |part| part.give(&mut pieces));
            if is_done {
                shard.end_snapshot();
                self.position += 1;
            }
        }
        self.shared.check()?;
        Ok(Some(SnapshotBatch { pieces, bytes, shared: Arc::clone(&self.shared) }))
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // A shard may be in the middle of a change: the process ends.
            return;
        }
        for index in self.position..self.keyspace.shard_count() as u16 {
            self.keyspace.lock(ShardIndex(index)).only().0.end_snapshot();
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

    fn discharge(&self, bytes: u64) {
        if bytes > 0 {
            self.account.discharge(bytes);
        }
    }
}

impl Drop for SnapshotBatch {
    fn drop(&mut self) {
        self.shared.discharge(self.bytes);
    }
}

impl ShardSnapshot {
    /// Moves what is there to `pieces`, and returns its bytes, which stay charged.
    fn give(&mut self, pieces: &mut Vec<SnapshotPiece>) -> u64 {
        pieces.append(&mut self.pieces);
        let bytes = std::mem::take(&mut self.bytes);
        self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    /// Takes what was in `bucket` of `part`.
    fn keep(&mut self, part: &DatabaseShard, walk: &SnapshotWalk, bucket: u64, cx: &Published) {
        let database = walk.database;
        let mut encoded = self.open_piece(database);
        let (before, encoded_before) = (self.pieces.len(), encoded.capacity() as u64);
        part.table.visit_bucket_of(walk.bucket_count, bucket, &mut |entry| {
            let held = self.keep_entry(part, entry, cx, &mut encoded);
            let content = held.map(|held| SnapshotContent::Held(Box::new(held)));
            self.pieces.extend(content.map(|content| SnapshotPiece { database, content }));
        });
        let held_bytes: u64 = self.pieces[before..].iter().map(SnapshotPiece::memory_bytes).sum();
        let bytes = held_bytes + encoded.capacity() as u64 - encoded_before;
        if !encoded.is_empty() {
            self.pieces
                .push(SnapshotPiece { database, content: SnapshotContent::Encoded(encoded) });
        }
        if bytes > 0 {
            self.bytes += bytes;
            self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.shared.account.charge(bytes);
        }
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
        let now = self.shared.options.now;
        let idle = self.shared.tells_idle.then(|| idle_seconds(entry.mark(), now));
        let tracking = &published.tracking;
        let counter = tracking.does_count().then(|| tracking.counter(entry.mark(), now));
        let expires_at = entry.expiry();
        if let Some(tail) = tail_of(&entry) {
            self.encoder.put_item_tail(&tail.to_bytes(), encoded);
        } else if let Some(value) = part.table.hold_entry(&entry) {
            let mut head = Vec::new();
            self.encoder.put_last_use(idle, counter, &mut head);
            self.encoder.put_grace(entry.grace().ms(), &mut head);
            return Some(HeldEntry { head, key: entry.key().to_vec(), expires_at, value });
        }
        self.encoder.put_last_use(idle, counter, encoded);
        self.encoder.put_grace(entry.grace().ms(), encoded);
        let object: Object<'_> = part.object_of(entry);
        let content = object.content();
        let is_long = object.memory_bytes() > COMPRESSED_BYTES_MAX;
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
        }
    }
}

impl Shard {
    fn begin_snapshot(&mut self, shared: &Arc<SnapshotState>) {
        let mut has_keys = false;
        for database in (0..base::DATABASE_COUNT_MAX as u8).map(DatabaseIndex) {
            let Some(part) = self.database_mut(database) else { continue };
            if !part.table.is_empty() {
                let walk = SnapshotWalk::new(database, part.table.bucket_count());
                part.snapshot_walk = Some(Box::new(walk));
                has_keys = true;
            }
        }
        let SnapshotOptions { version, compresses, .. } = shared.options;
        self.snapshot = has_keys.then(|| {
            Box::new(ShardSnapshot {
                shared: Arc::clone(shared),
                encoder: EntryEncoder::new(version, compresses),
                pieces: Vec::new(),
                bytes: 0,
            })
        });
    }

    fn end_snapshot(&mut self) {
        self.snapshot = None;
        for database in (0..base::DATABASE_COUNT_MAX as u8).map(DatabaseIndex) {
            if let Some(part) = self.database_mut(database) {
                part.snapshot_walk = None;
            }
        }
    }

    /// Goes through buckets until `is_due`; returns whether there is none left.
    fn walk_snapshot(&mut self, is_due: &mut impl FnMut() -> bool) -> bool {
        let Some(mut snapshot) = self.snapshot.take() else { return true };
        let mut is_done = true;
        'parts: for database in (0..base::DATABASE_COUNT_MAX as u8).map(DatabaseIndex) {
            let Some(part) = self.database_mut(database) else { continue };
            let Some(mut walk) = part.snapshot_walk.take() else { continue };
            while walk.next < walk.bucket_count {
                let bucket = walk.next;
                walk.next += 1;
                if walk.take(bucket) {
                    let part = self.database(database).expect("just looked at");
                    snapshot.keep(part, &walk, bucket, &self.published);
                }
                if is_due() {
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
        let bucket = home_bucket(hash, walk.bucket_count);
        if walk.take(bucket) {
            let mut snapshot = self.snapshot.take().expect("the caller has looked");
            let shared = Arc::clone(&snapshot.shared);
            let queued = shared.queued_bytes.load(Ordering::Relaxed);
            if queued > shared.options.queued_bytes_max {
                shared.has_overflowed.store(true, Ordering::Relaxed);
            } else {
                let part = self.database(database).expect("just looked at");
                snapshot.keep(part, &walk, bucket, &self.published);
            }
            self.snapshot = Some(snapshot);
        }
        let part = self.database_mut(database).expect("just looked at");
        part.snapshot_walk = Some(walk);
    }

    /// Ends the snapshot that runs where it has yet to take keys of `database`, which is about to
    /// be flushed.
    pub fn before_flush(&mut self, database: DatabaseIndex) {
        let Some(snapshot) = &self.snapshot else { return };
        let part = self.database(database);
        if part.is_some_and(|part| part.snapshot_walk.is_some()) {
            snapshot.shared.was_flushed.store(true, Ordering::Relaxed);
        }
    }
}
