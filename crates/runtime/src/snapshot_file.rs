//! The dataset in a file of Redis's format: written while the instance serves, and read at start.
//!
//! A file is written beside its place under another name, made durable, and then given its name, so
//! that there is a whole one at any time. The caller's thread does all of it.
//!
//! *Not here*: when it is done, and by which thread (server); the moment that a file stands for
//! (`keyspace/snapshot.rs`).

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{DatabaseIndex, Lsn, UnixMs};
use keyspace::{
    Guard, LastUse, NeedRoom, RestoreError, Snapshot, SnapshotBatch, SnapshotContent, SnapshotEnd,
    SnapshotOptions, SnapshotRuns,
};
use rdb::file::{
    EntryEncoder, FileEntry, FileError, FileForm, FileReader, FileWriter, Item, LSN_FIELD,
};

use crate::runtime::Runtime;

/// A file that is not finished is named as Redis names it, around the number of the process.
const TEMPORARY_PREFIX: &str = "temp-";
const TEMPORARY_SUFFIX: &str = ".rdb";
/// For how long a shard is locked at a time, in nanoseconds: a bucket more may be taken then.
const HOLD_NS: u64 = 30_000;
/// What is written at once.
const BUFFER_BYTES: usize = 256 << 10;
/// How much is written before the system is asked to make it durable, so that not all of it is in
/// memory when the file ends.
const SYNC_BYTES: u64 = 32 << 20;
/// How often a snapshot begins anew that flushes end.
const RESTARTS_MAX: u32 = 64;
/// What writes may leave to a snapshot, at least and as a share of the memory limit.
const QUEUED_BYTES_MIN: u64 = 64 << 20;
const QUEUED_SHARE: u64 = 20;

/// How a file is written.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// The version of Redis that the file says it is from.
    pub redis_version: String,
    /// Whether strings are compressed.
    pub compresses: bool,
    /// Whether the file ends with a checksum.
    pub has_checksum: bool,
}

/// How far a file that is being written is, and the wish that it ends.
#[derive(Debug, Default)]
pub struct SaveProgress {
    /// The keys that there were at the cut.
    pub keys: AtomicU64,
    /// The bytes that were written.
    pub bytes: AtomicU64,
    /// Set by who wants it to end.
    pub is_cancelled: AtomicBool,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The bytes of the file.
    pub bytes: u64,
    /// The changes since the start that it has.
    pub changes: u64,
    /// The LSN of the last record that it has.
    pub lsn: Lsn,
}

/// Why nothing was written. The file that was there before is as it was.
#[derive(Debug)]
pub enum SaveError {
    /// Another file is being written.
    Runs,
    /// Somebody has ended it.
    Cancelled,
    /// Writes left more to it than it could write.
    Overflow,
    /// Flushes ended it too often.
    Flushed,
    /// The system did not take it.
    System {
        /// What was done.
        step: &'static str,
        /// What it said.
        error: io::Error,
    },
}

impl fmt::Display for SaveError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveError::Runs => formatter.write_str("another snapshot is being written"),
            SaveError::Cancelled => formatter.write_str("it was ended"),
            SaveError::Overflow => formatter.write_str(
                "data change faster than they are written, and what waits would take too much \
                 memory",
            ),
            SaveError::Flushed => formatter.write_str("databases are flushed again and again"),
            SaveError::System { step, error } => write!(formatter, "{step}: {error}"),
        }
    }
}

impl std::error::Error for SaveError {}

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

impl Runtime {
    /// Writes the dataset of a moment after the call to `path`, in place of what is there, while
    /// others read and write. The caller holds no guard.
    ///
    /// # Errors
    /// [`SaveError`].
    pub fn save(
        &self,
        path: &Path,
        options: &SaveOptions,
        progress: &SaveProgress,
    ) -> Result<Saved, SaveError> {
        let own = temporary(path);
        let saved = self.save_beside(&own, options, progress).and_then(|saved| {
            let system = |step| move |error| SaveError::System { step, error };
            fs::rename(&own, path).map_err(system("Error moving temp DB file on the final one"))?;
            sync_directory(path).map_err(system("fsync of the directory"))?;
            Ok(saved)
        });
        if saved.is_err() {
            // Where it is not there, there is nothing to remove.
            let _ = fs::remove_file(&own);
        }
        saved
    }

    fn save_beside(
        &self,
        path: &Path,
        options: &SaveOptions,
        progress: &SaveProgress,
    ) -> Result<Saved, SaveError> {
        for _ in 0..RESTARTS_MAX {
            let opened = File::create(path);
            let file = opened.map_err(|error| SaveError::System {
                step: "Failed opening the temp RDB file for saving",
                error,
            })?;
            match self.write_snapshot(file, options, progress) {
                // What the database that was flushed had is gone: a later moment will do.
                Err(SaveError::Flushed) => {}
                ended => return ended,
            }
        }
        Err(SaveError::Flushed)
    }

    fn write_snapshot(
        &self,
        file: File,
        options: &SaveOptions,
        progress: &SaveProgress,
    ) -> Result<Saved, SaveError> {
        let keyspace = self.keyspace();
        let version = keyspace.export_version();
        let limit = keyspace.maxmemory();
        let mut changes = 0;
        let begun = keyspace.begin_snapshot(
            SnapshotOptions {
                version,
                compresses: options.compresses,
                queued_bytes_max: QUEUED_BYTES_MIN.max(limit / QUEUED_SHARE),
                now: self.clock().wall(),
            },
            |last| {
                changes = keyspace.changes_since_start();
                // Nobody has written since the stream was begun anew, perhaps.
                let end = self.kept_backlog().map_or(Lsn(0), |backlog| backlog.extent().end);
                last.max(end)
            },
        );
        let snapshot = begun.map_err(|SnapshotRuns| SaveError::Runs)?;
        let lsn = snapshot.lsn();
        let keys = snapshot.counts().iter().map(|(_, counts)| counts.keys).sum();
        progress.keys.store(keys, Ordering::Relaxed);
        progress.bytes.store(0, Ordering::Relaxed);
        let written = Writing { runtime: self, options, progress, version }.run(snapshot, file)?;
        Ok(Saved { bytes: written, changes, lsn })
    }

    /// Makes the keys of the file `input`, which are not there yet, while `observer` follows.
    /// Memory limits do not count meanwhile. The caller holds no guard.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(
        &self,
        input: impl Read,
        expired: ExpiredKeys,
        observer: &mut dyn LoadObserver,
    ) -> Result<Loaded, LoadError> {
        self.load_file(&mut FileReader::open(input)?, expired, observer)
    }

    /// As [`Runtime::load`], of a file that was opened: something else may follow it.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load_file<R: Read>(
        &self,
        reader: &mut FileReader<R>,
        expired: ExpiredKeys,
        observer: &mut dyn LoadObserver,
    ) -> Result<Loaded, LoadError> {
        self.read_entries(reader, observer, &mut |database, entry| {
            let key = self.keyspace().hasher().key(entry.key);
            let mut guard = self.keyspace().lock(key.shard);
            // Nothing is evicted for it: what was in memory where it comes from must fit here.
            guard.begin_atomic();
            let loaded = self.load_entry(&mut guard, database, entry, expired);
            guard.finish();
            loaded
        })
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
        let loaded = self.read_entries(&mut reader, &mut (), &mut |database, entry| {
            self.load_entry(&mut guard, database, entry, ExpiredKeys::LeftOut)
        });
        guard.finish();
        Ok(loaded?)
    }

    /// Writes the dataset to `path` while `guard`, which holds all shards, keeps it as it is.
    fn save_held(
        &self,
        guard: &mut Guard<'_>,
        path: &Path,
        options: &SaveOptions,
    ) -> io::Result<()> {
        let (keyspace, own) = (self.keyspace(), temporary(path));
        let version = keyspace.export_version();
        let timed = keyspace.databases().any(|database| keyspace.counts(database).timed > 0);
        let form = FileForm { version, has_field_times: timed, has_checksum: options.has_checksum };
        let out = BufWriter::with_capacity(BUFFER_BYTES, File::create(&own)?);
        let mut writer = FileWriter::begin(out, &form)?;
        writer.field(b"redis-ver", options.redis_version.as_bytes())?;
        let mut encoder = EntryEncoder::new(version, options.compresses);
        let mut bytes = Vec::new();
        for database in keyspace.databases() {
            let mut written = Ok(());
            guard.access().for_each_entry(database, &mut |object| {
                bytes.clear();
                encoder.put_grace(object.grace().ms(), &mut bytes);
                encoder.put(object.key(), object.expiry(), object.content().stored(), &mut bytes);
                if written.is_ok() {
                    written = writer.entries(database, &bytes);
                }
            });
            written?;
        }
        let out = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        out.sync_all()?;
        fs::rename(&own, path)?;
        sync_directory(path)
    }

    fn read_entries<R: Read>(
        &self,
        reader: &mut FileReader<R>,
        observer: &mut dyn LoadObserver,
        load: &mut dyn FnMut(DatabaseIndex, &FileEntry<'_>) -> Result<bool, LoadError>,
    ) -> Result<Loaded, LoadError> {
        const REPORT_KEYS: u64 = 1024;
        let (mut loaded, mut database) = (Loaded::default(), DatabaseIndex(0));
        loop {
            loaded.bytes = reader.offset();
            match reader.next_item()? {
                None => break,
                Some(Item::Field { name, value }) if name == LSN_FIELD => {
                    let number = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    loaded.lsn = number.map(Lsn);
                }
                Some(Item::Field { name, value }) => observer.field(name, value),
                Some(Item::Sizes { .. }) => {}
                Some(Item::Database(number)) => {
                    let is_here = number < self.keyspace().database_count() as u64;
                    database = DatabaseIndex(number as u8);
                    if !is_here {
                        return Err(LoadError::Database(number));
                    }
                }
                Some(Item::Entry(entry)) => {
                    match load(database, &entry)? {
                        true => loaded.keys += 1,
                        false => loaded.expired += 1,
                    }
                    if (loaded.keys + loaded.expired).is_multiple_of(REPORT_KEYS) {
                        follow(observer, &loaded)?;
                    }
                }
            }
        }
        loaded.bytes = reader.offset();
        follow(observer, &loaded)?;
        Ok(loaded)
    }

    /// Makes the key of `entry`, whose shard `guard` holds; returns whether it did: one that has
    /// expired may be left out.
    fn load_entry(
        &self,
        guard: &mut Guard<'_>,
        database: DatabaseIndex,
        entry: &FileEntry<'_>,
        expired: ExpiredKeys,
    ) -> Result<bool, LoadError> {
        let now = match expired {
            ExpiredKeys::LeftOut => self.clock().wall(),
            // Nothing has expired as yet.
            ExpiredKeys::Made => UnixMs(i64::MIN),
        };
        let grace_ms = i64::try_from(entry.grace_ms).unwrap_or(i64::MAX);
        if entry.expires_at.is_some_and(|at| now.0 > at.0.saturating_add(grace_ms)) {
            return Ok(false);
        }
        // What has expired and may be read as a stale value is there all the same.
        let now = if entry.grace_ms > 0 { UnixMs(i64::MIN) } else { now };
        let key = self.keyspace().hasher().key(entry.key);
        let mut view = guard.write(database, now);
        let offset = entry.offset;
        if view.contains(&key) {
            return Err(LoadError::Twice { offset, key: entry.key.to_vec() });
        }
        let last_use = match (entry.counter, entry.idle_seconds) {
            (Some(counter), _) => LastUse::Counted(counter),
            (None, Some(seconds)) => LastUse::Ago { seconds },
            (None, None) => LastUse::Now,
        };
        let made = view.load(&key, entry.value, entry.expires_at, entry.grace_ms, last_use);
        made.map(|()| true).map_err(|error| match error {
            RestoreError::NeedRoom(need) => LoadError::NoRoom(need),
            RestoreError::Payload(_) | RestoreError::Malformed => {
                LoadError::Value { offset, key: entry.key.to_vec() }
            }
        })
    }
}

fn follow(observer: &mut dyn LoadObserver, loaded: &Loaded) -> Result<(), LoadError> {
    match observer.progress(loaded) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(LoadError::Cancelled),
    }
}

/// A file that is being written.
struct Writing<'r> {
    runtime: &'r Runtime,
    options: &'r SaveOptions,
    progress: &'r SaveProgress,
    version: rdb::Version,
}

impl Writing<'_> {
    fn run(&self, mut snapshot: Snapshot<'_>, file: File) -> Result<u64, SaveError> {
        let form = FileForm {
            version: self.version,
            has_field_times: snapshot.counts().iter().any(|(_, counts)| counts.timed > 0),
            has_checksum: self.options.has_checksum,
        };
        let out = Syncing { file, unsynced: 0 };
        let begun = FileWriter::begin(BufWriter::with_capacity(BUFFER_BYTES, out), &form);
        let mut writer = begun.map_err(write_error)?;
        self.head(&mut writer, &snapshot).map_err(write_error)?;
        let mut encoder = EntryEncoder::new(self.version, self.options.compresses);
        let clock = self.runtime.clock();
        loop {
            if self.progress.is_cancelled.load(Ordering::Relaxed) {
                return Err(SaveError::Cancelled);
            }
            let began = clock.steady_ns();
            let batch = snapshot.step(|| clock.steady_ns().saturating_sub(began) >= HOLD_NS);
            let batch = batch.map_err(|end| match end {
                SnapshotEnd::Flushed => SaveError::Flushed,
                SnapshotEnd::Overflow => SaveError::Overflow,
            })?;
            let Some(batch) = batch else { break };
            put(&batch, &mut encoder, &mut writer).map_err(write_error)?;
            self.progress.bytes.store(writer.bytes(), Ordering::Relaxed);
        }
        drop(snapshot);
        self.finish(writer).map_err(write_error)
    }

    /// Writes what there is to say of the whole file.
    fn head<W: Write>(
        &self,
        writer: &mut FileWriter<W>,
        snapshot: &Snapshot<'_>,
    ) -> io::Result<()> {
        let number = |number: u64| number.to_string().into_bytes();
        let seconds = self.runtime.clock().wall().0 / 1000;
        writer.field(b"redis-ver", self.options.redis_version.as_bytes())?;
        writer.field(b"redis-bits", b"64")?;
        writer.field(b"ctime", seconds.to_string().as_bytes())?;
        writer.field(b"used-mem", &number(self.runtime.keyspace().used_memory()))?;
        writer.field(b"aof-base", b"0")?;
        writer.field(LSN_FIELD, &number(snapshot.lsn().0))?;
        for (database, counts) in snapshot.counts() {
            writer.sizes(*database, counts.keys, counts.volatile)?;
        }
        Ok(())
    }

    /// Makes the file durable; returns its bytes.
    fn finish(&self, writer: FileWriter<BufWriter<Syncing>>) -> io::Result<u64> {
        const CHECKSUM_BYTES: u64 = 8;
        let bytes = writer.bytes() + 1 + CHECKSUM_BYTES;
        let out = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        out.file.sync_all()?;
        Ok(bytes)
    }
}

fn write_error(error: io::Error) -> SaveError {
    SaveError::System { step: "Write error saving DB on disk", error }
}

/// Writes what a snapshot gave.
fn put<W: Write>(
    batch: &SnapshotBatch,
    encoder: &mut EntryEncoder,
    writer: &mut FileWriter<W>,
) -> io::Result<()> {
    for piece in &batch.pieces {
        match &piece.content {
            SnapshotContent::Encoded(bytes) => writer.entries(piece.database, bytes)?,
            SnapshotContent::Held(held) => {
                let mut entry = held.head.clone();
                let value = rdb::Stored::String(held.value.as_ref());
                encoder.put(&held.key, held.expires_at, value, &mut entry);
                writer.entries(piece.database, &entry)?;
            }
        }
    }
    Ok(())
}

/// A file that is made durable as it grows.
struct Syncing {
    file: File,
    unsynced: u64,
}

impl Write for Syncing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.unsynced += count as u64;
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the name under which the file that becomes `path` is written: another one for each
/// process, as Redis's.
fn temporary(path: &Path) -> PathBuf {
    path.with_file_name(format!("{TEMPORARY_PREFIX}{}{TEMPORARY_SUFFIX}", std::process::id()))
}

/// Returns whether a file of this name is one that was not finished, by this process or another.
pub fn is_temporary(name: &str) -> bool {
    let middle = name.strip_prefix(TEMPORARY_PREFIX);
    let id = middle.and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX));
    id.is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit()))
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
