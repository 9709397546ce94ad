//! Reads a file of the dataset into an instance that serves nobody yet.
//!
//! One thread reads the file, checks it and hashes the keys; the keys of a batch are then made
//! shard by shard, with one lock and one look ahead for all of a shard, by a thread that helps, or
//! by the one that reads where there is much to be made. A long value waits for nobody.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use arena::Cost;
use base::{DatabaseIndex, Key, Lsn, ShardIndex, Slot, UnixMs};
use effects::LastUse;
use keyspace::{Guard, ItemTail, NeedRoom, RestoreError};
use rdb::file::{FileEntry, FileError, FileReader, Item, LSN_FIELD};
use sys::crash::AlternateStack;

use crate::runtime::Runtime;
use crate::snapshot_file::SaveOptions;

/// Keys that are made together, and their bytes with those of their values.
const BATCH_KEYS_MAX: usize = 4096;
const BATCH_BYTES_MAX: usize = 512 << 10;
/// Keys and values of this length are made at once, from where they were read.
const LONG_BYTES: usize = 64 << 10;
/// Batches that wait to be made.
const WAITING_MAX: usize = 4;
/// After how many keys somebody is told, where they are read one by one.
const REPORT_KEYS: u64 = 1024;
/// What a key takes of a file at least, where it is believed how many it has: less than what it
/// takes of the index.
const KEY_BYTES_BELIEVED: u64 = 16;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The LSN that the file stands for, if it says so.
    pub lsn: Option<Lsn>,
    /// The keys that are there now.
    pub keys: u64,
    /// The keys that had expired and were left out.
    pub expired: u64,
    /// The bytes of the file.
    pub bytes: u64,
}

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// What becomes of keys that have expired.
    pub expired: ExpiredKeys,
    /// How many threads help the caller's to make keys.
    pub helpers: usize,
    /// The bytes of the file, where they are known: memory is taken ahead for no more keys than it
    /// can have.
    pub file_bytes: u64,
}

/// Who follows the reading of a file.
pub trait LoadObserver {
    /// The file has a field of this name.
    fn field(&mut self, _name: &[u8], _value: &[u8]) {}

    /// So much was read, now and then and at the end. Where it breaks, the reading ends with
    /// [`LoadError::Cancelled`].
    fn progress(&mut self, _loaded: &Loaded) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Nobody does.
impl LoadObserver for () {}

/// What becomes of keys of a file that have expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiredKeys {
    /// They are left out.
    LeftOut,
    /// They are made: what is applied behind the file knows them until it says that they are gone.
    Made,
}

/// Why a file was not read to its end: what came before is there.
#[derive(Debug)]
pub enum LoadError {
    /// The file is not as it may be.
    File(FileError),
    /// It has a database that is not here.
    Database(u64),
    /// What it has of a key is no value.
    Value {
        /// Where the entry begins.
        offset: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// It has a key twice.
    Twice {
        /// Where the second entry begins.
        offset: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// There is no memory for it.
    NoRoom(NeedRoom),
    /// Who follows it wants no more.
    Cancelled,
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::File(error) => error.fmt(formatter),
            LoadError::Database(number) => write!(
                formatter,
                "it has database {number}, which is beyond those of the option 'databases'"
            ),
            LoadError::Value { offset, key } => {
                write!(formatter, "at byte {offset}: the value of '{}' is none", key.escape_ascii())
            }
            LoadError::Twice { offset, key } => {
                write!(formatter, "at byte {offset}: the key '{}' once more", key.escape_ascii())
            }
            LoadError::NoRoom(need) => {
                write!(formatter, "no memory for it: {} bytes are missing", need.bytes)
            }
            LoadError::Cancelled => formatter.write_str("it was ended"),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<FileError> for LoadError {
    fn from(error: FileError) -> LoadError {
        LoadError::File(error)
    }
}

/// Keys of one database with their values, yet to be made.
#[derive(Default)]
struct Batch {
    database: DatabaseIndex,
    bytes: Vec<u8>,
    entries: Vec<BatchEntry>,
}

#[derive(Clone, Copy)]
struct BatchEntry {
    hash: u64,
    slot: Slot,
    shard: ShardIndex,
    counter: Option<u8>,
    /// Where in the bytes the key begins, which the value follows.
    start: u32,
    key_bytes: u32,
    value_bytes: u32,
    idle_seconds: Option<u64>,
    expires_at: Option<UnixMs>,
    grace_ms: u64,
    cost: u64,
    /// The length of what an item of memcached has behind its value, where it is one.
    tail_bytes: Option<u32>,
    offset: u64,
}

/// Batches on their way from the thread that reads to those that help.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Batch>,
    /// Memory of batches that were made.
    spare: Vec<Batch>,
    /// Nothing more comes.
    has_ended: bool,
    made: Made,
    /// Why one could not be made: what was noted first, which need not be the earliest in the file.
    failure: Option<LoadError>,
}

/// What came of keys.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    keys: u64,
    expired: u64,
}

impl Runtime {
    /// Makes the keys of the file `input`, which are not there yet, while `observer` follows.
    /// Memory limits do not count meanwhile. The caller holds no guard, and nobody else changes
    /// anything.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(
        &self,
        input: impl Read,
        options: &LoadOptions,
        observer: &mut dyn LoadObserver,
    ) -> Result<Loaded, LoadError> {
        self.load_file(&mut FileReader::open(input)?, options, observer)
    }

    /// As [`Runtime::load`], of a file that was opened: something else may follow it.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load_file<R: Read>(
        &self,
        reader: &mut FileReader<R>,
        options: &LoadOptions,
        observer: &mut dyn LoadObserver,
    ) -> Result<Loaded, LoadError> {
        let queue = Queue::default();
        thread::scope(|scope| {
            for number in 0..options.helpers {
                let help = || {
                    // Without a stack for signals a crash here tells less.
                    let _stack = AlternateStack::for_this_thread();
                    self.help(&queue, options.expired);
                };
                let name = format!("loader-{number}");
                // The thread that reads makes alone what nobody helps with.
                let _ = thread::Builder::new().name(name).spawn_scoped(scope, help);
            }
            let mut feed = Feed { runtime: self, queue: &queue, options, batch: Batch::default() };
            let read = feed.read(reader, observer);
            // However it has ended: those who help wait for it.
            let last = if read.is_ok() { feed.send() } else { Ok(()) };
            queue.end(read.is_ok());
            self.help(&queue, options.expired);
            read.and_then(|loaded| last.map(|()| loaded))
        })
        .and_then(|loaded| {
            let mut state = queue.state();
            state.failure.take().map_or(Ok(()), Err)?;
            let Made { keys, expired } = state.made;
            let loaded = Loaded { keys, expired, ..loaded };
            follow(observer, &loaded)?;
            Ok(loaded)
        })
    }

    /// Makes the keys of batches until there will be none any more.
    fn help(&self, queue: &Queue, expired: ExpiredKeys) {
        while let Some(batch) = queue.take() {
            let made = self.make(&batch, expired);
            queue.settle(batch, made);
        }
    }

    /// Makes the keys of `batch`.
    fn make(&self, batch: &Batch, expired: ExpiredKeys) -> Result<Made, LoadError> {
        let (mut made, now) = (Made::default(), self.clock().wall());
        let mut order: Vec<u32> = Vec::with_capacity(batch.entries.len());
        order.extend(batch.entries.iter().zip(0..).map(|(entry, index)| {
            // Fewer than 2^16 shards, and no more keys than fit beside.
            u32::from(entry.shard.0) << u16::BITS | index
        }));
        order.sort_unstable();
        let mut keys = Vec::new();
        for group in order.chunk_by(|a, b| a >> u16::BITS == b >> u16::BITS) {
            let entry = |index: &u32| &batch.entries[(index & 0xffff) as usize];
            keys.clear();
            keys.extend(group.iter().map(|index| batch.key(entry(index))));
            let mut guard = self.keyspace().lock(entry(&group[0]).shard);
            // Nothing is evicted for it: what was in memory where it comes from must fit here.
            guard.begin_atomic();
            // Those that do not say when they were used last were used now.
            guard.replay_at(now);
            guard.prefetch_buckets(&keys, batch.database);
            let mut keys = keys.iter().zip(group);
            let all: Result<(), LoadError> = keys.try_for_each(|(key, index)| {
                let entry = batch.entry(entry(index));
                made.add(self.load_entry(
                    &mut guard,
                    key,
                    batch.database,
                    &entry,
                    (expired, now),
                )?);
                Ok(())
            });
            guard.finish();
            all?;
        }
        Ok(made)
    }

    /// Writes the dataset to `path` as `options` say, where there are any, removes all keys, and
    /// makes those of the file, while nobody else reads or writes. The caller holds no guard.
    ///
    /// # Errors
    /// When the file is not written, and nothing has changed; or when it cannot be read, and what
    /// came before the fault is there.
    pub fn reload(
        &self,
        path: &Path,
        options: Option<&SaveOptions>,
    ) -> Result<Loaded, Box<dyn std::error::Error>> {
        let mut guard = self.keyspace().lock_all();
        if let Some(options) = options {
            self.save_held(&mut guard, path, options)?;
        }
        let mut reader = FileReader::open(File::open(path)?)?;
        guard.begin_atomic();
        guard.access().flush_all(self.clock().wall());
        let now = self.clock().wall();
        let mut made = Made::default();
        let loaded = self.read_entries(&mut reader, &mut (), &mut |item| {
            let ReadItem::Entry(database, entry) = item else { return Ok(Made::default()) };
            let key = self.keyspace().hasher().key(entry.key);
            let expired = (ExpiredKeys::LeftOut, now);
            made.add(self.load_entry(&mut guard, &key, database, entry, expired)?);
            Ok(made)
        });
        guard.finish();
        Ok(Loaded { keys: made.keys, expired: made.expired, ..loaded? })
    }

    /// Hands what the file has to `take`, which returns what has been made so far.
    fn read_entries<R: Read>(
        &self,
        reader: &mut FileReader<R>,
        observer: &mut dyn LoadObserver,
        take: &mut dyn FnMut(ReadItem<'_>) -> Result<Made, LoadError>,
    ) -> Result<Loaded, LoadError> {
        let (mut loaded, mut database) = (Loaded::default(), DatabaseIndex(0));
        let mut read = 0_u64;
        loop {
            loaded.bytes = reader.offset();
            match reader.next_item()? {
                None => break,
                Some(Item::Field { name, value }) if name == LSN_FIELD => {
                    let number = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    loaded.lsn = number.map(Lsn);
                }
                Some(Item::Field { name, value }) => observer.field(name, value),
                Some(Item::Sizes { keys, .. }) => {
                    take(ReadItem::Size(database, keys))?;
                }
                Some(Item::Database(number)) => {
                    let is_here = number < self.keyspace().database_count() as u64;
                    database = DatabaseIndex(number as u8);
                    if !is_here {
                        return Err(LoadError::Database(number));
                    }
                }
                Some(Item::Entry(entry)) => {
                    let made = take(ReadItem::Entry(database, &entry))?;
                    (loaded.keys, loaded.expired) = (made.keys, made.expired);
                    read += 1;
                    if read.is_multiple_of(REPORT_KEYS) || entry.value.len() >= LONG_BYTES {
                        follow(observer, &loaded)?;
                    }
                }
            }
        }
        loaded.bytes = reader.offset();
        Ok(loaded)
    }

    /// Makes `key` as `entry` says, in a shard that `guard` holds; one that has expired may be left
    /// out.
    fn load_entry(
        &self,
        guard: &mut Guard<'_>,
        key: &Key<'_>,
        database: DatabaseIndex,
        entry: &FileEntry<'_>,
        (expired, now): (ExpiredKeys, UnixMs),
    ) -> Result<Made, LoadError> {
        let now = match expired {
            ExpiredKeys::LeftOut => now,
            // Nothing has expired as yet.
            ExpiredKeys::Made => UnixMs(i64::MIN),
        };
        let grace_ms = i64::try_from(entry.grace_ms).unwrap_or(i64::MAX);
        if entry.expires_at.is_some_and(|at| now.0 > at.0.saturating_add(grace_ms)) {
            return Ok(Made { keys: 0, expired: 1 });
        }
        let last_use = match (entry.counter, entry.idle_seconds) {
            (Some(counter), _) => LastUse::Counted(counter),
            (None, Some(seconds)) => LastUse::Ago { seconds },
            (None, None) => LastUse::Now,
        };
        let mut view = guard.write(database, now);
        let offset = entry.offset;
        let made = match entry.item_tail {
            None => {
                let cost = Cost::of(entry.cost).unwrap_or(Cost::ONE);
                view.load(key, entry.value, entry.expires_at, entry.grace_ms, last_use, cost)
            }
            Some(tail) => {
                let tail = ItemTail::from_bytes(tail);
                let tail = tail.ok_or(LoadError::Value { offset, key: entry.key.to_vec() })?;
                let (expires_at, grace_ms) = (entry.expires_at, entry.grace_ms);
                view.load_item(key, entry.value, tail, expires_at, grace_ms, last_use)
            }
        };
        match made {
            Ok(true) => Ok(Made { keys: 1, expired: 0 }),
            Ok(false) => Err(LoadError::Twice { offset, key: entry.key.to_vec() }),
            Err(RestoreError::NeedRoom(need)) => Err(LoadError::NoRoom(need)),
            Err(RestoreError::Payload(_) | RestoreError::Malformed) => {
                Err(LoadError::Value { offset, key: entry.key.to_vec() })
            }
        }
    }
}

/// What a file has.
enum ReadItem<'f> {
    /// So many keys of the database follow, as it says.
    Size(DatabaseIndex, u64),
    Entry(DatabaseIndex, &'f FileEntry<'f>),
}

/// The thread that reads.
struct Feed<'r> {
    runtime: &'r Runtime,
    queue: &'r Queue,
    options: &'r LoadOptions,
    batch: Batch,
}

impl Feed<'_> {
    fn read<R: Read>(
        &mut self,
        reader: &mut FileReader<R>,
        observer: &mut dyn LoadObserver,
    ) -> Result<Loaded, LoadError> {
        let runtime = self.runtime;
        let mut made = Made::default();
        runtime.read_entries(reader, observer, &mut |item| {
            match item {
                ReadItem::Size(database, keys) => self.reserve(database, keys),
                ReadItem::Entry(database, entry) => {
                    if self.take(database, entry)? {
                        made = self.queue.state().made;
                    }
                }
            }
            Ok(made)
        })
    }

    /// Makes room in the index for `keys`, as far as a file of this length can have them: no more
    /// is made ahead in vain for a database, whatever the file says.
    fn reserve(&self, database: DatabaseIndex, keys: u64) {
        let keyspace = self.runtime.keyspace();
        let believed = keys.min(self.options.file_bytes / KEY_BYTES_BELIEVED);
        let share = believed / keyspace.shard_count() as u64;
        for shard in keyspace.shard_indexes() {
            let mut guard = keyspace.lock(shard);
            guard.begin_atomic();
            // Where there is none, the key that needs it says so.
            let _ = guard.reserve(database, share);
            guard.finish();
        }
    }

    /// Takes a key to be made; returns whether others have been.
    fn take(&mut self, database: DatabaseIndex, entry: &FileEntry<'_>) -> Result<bool, LoadError> {
        let key = self.runtime.keyspace().hasher().key(entry.key);
        let length = entry.key.len() + entry.value.len();
        if length >= LONG_BYTES {
            return self.make_long(database, &key, entry).map(|()| true);
        }
        let is_full = self.batch.entries.len() == BATCH_KEYS_MAX
            || self.batch.bytes.len() + length > BATCH_BYTES_MAX;
        let sends = is_full || self.batch.database != database;
        if sends {
            self.send()?;
        }
        self.batch.database = database;
        self.batch.put(&key, entry);
        Ok(sends)
    }

    fn make_long(
        &self,
        database: DatabaseIndex,
        key: &Key<'_>,
        entry: &FileEntry<'_>,
    ) -> Result<(), LoadError> {
        let now = self.runtime.clock().wall();
        let mut guard = self.runtime.keyspace().lock(key.shard);
        guard.begin_atomic();
        guard.replay_at(now);
        let expired = (self.options.expired, now);
        let made = self.runtime.load_entry(&mut guard, key, database, entry, expired);
        guard.finish();
        self.queue.state().made.add(made?);
        Ok(())
    }

    /// Has the batch made by who helps, or makes it where they have enough.
    fn send(&mut self) -> Result<(), LoadError> {
        if self.batch.entries.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        if let Some(batch) = self.queue.offer(batch, self.options.helpers)? {
            let made = self.runtime.make(&batch, self.options.expired);
            self.queue.settle(batch, made);
        }
        let mut state = self.queue.state();
        self.batch = state.spare.pop().unwrap_or_default();
        state.failure.take().map_or(Ok(()), Err)
    }
}

impl Batch {
    fn put(&mut self, key: &Key<'_>, entry: &FileEntry<'_>) {
        self.entries.push(BatchEntry {
            hash: key.hash,
            slot: key.slot,
            shard: key.shard,
            counter: entry.counter,
            start: self.bytes.len() as u32,
            key_bytes: entry.key.len() as u32,
            value_bytes: entry.value.len() as u32,
            idle_seconds: entry.idle_seconds,
            expires_at: entry.expires_at,
            grace_ms: entry.grace_ms,
            cost: entry.cost,
            tail_bytes: entry.item_tail.map(|tail| tail.len() as u32),
            offset: entry.offset,
        });
        self.bytes.extend_from_slice(entry.key);
        self.bytes.extend_from_slice(entry.value);
        self.bytes.extend_from_slice(entry.item_tail.unwrap_or_default());
    }

    fn key(&self, entry: &BatchEntry) -> Key<'_> {
        let BatchEntry { hash, slot, shard, .. } = *entry;
        Key { bytes: self.entry(entry).key, hash, slot, shard }
    }

    fn entry(&self, entry: &BatchEntry) -> FileEntry<'_> {
        let BatchEntry { expires_at, grace_ms, cost, idle_seconds, counter, offset, .. } = *entry;
        let (key, rest) = self.bytes[entry.start as usize..].split_at(entry.key_bytes as usize);
        let (value, rest) = rest.split_at(entry.value_bytes as usize);
        let item_tail = entry.tail_bytes.map(|bytes| &rest[..bytes as usize]);
        FileEntry {
            key,
            value,
            expires_at,
            grace_ms,
            cost,
            idle_seconds,
            counter,
            item_tail,
            offset,
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().expect("no holder of the queue panics")
    }

    /// Gives `batch` to who helps; returns it where there are `helpers` with enough to do.
    fn offer(&self, batch: Batch, helpers: usize) -> Result<Option<Batch>, LoadError> {
        let mut state = self.state();
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        if helpers == 0 || state.waiting.len() >= WAITING_MAX {
            return Ok(Some(batch));
        }
        state.waiting.push_back(batch);
        drop(state);
        self.changed.notify_one();
        Ok(None)
    }

    /// Takes the next batch, and waits for it; none where there will be none.
    fn take(&self) -> Option<Batch> {
        let mut state = self.state();
        loop {
            if let Some(batch) = state.waiting.pop_front() {
                return Some(batch);
            }
            if state.has_ended {
                return None;
            }
            state = self.changed.wait(state).expect("no holder of the queue panics");
        }
    }

    /// Notes what came of `batch`, and keeps its memory.
    fn settle(&self, mut batch: Batch, made: Result<Made, LoadError>) {
        batch.bytes.clear();
        batch.entries.clear();
        let mut state = self.state();
        state.spare.push(batch);
        match made {
            Ok(made) => state.made.add(made),
            Err(error) => {
                // The others are in vain.
                state.waiting.clear();
                state.failure.get_or_insert(error);
            }
        }
    }

    /// Has who helps end once what waits `is_wanted` and made.
    fn end(&self, is_wanted: bool) {
        let mut state = self.state();
        state.has_ended = true;
        if !is_wanted {
            state.waiting.clear();
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl Made {
    fn add(&mut self, more: Made) {
        self.keys += more.keys;
        self.expired += more.expired;
    }
}

fn follow(observer: &mut dyn LoadObserver, loaded: &Loaded) -> Result<(), LoadError> {
    match observer.progress(loaded) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(LoadError::Cancelled),
    }
}
