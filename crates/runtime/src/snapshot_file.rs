//! The dataset in a file of Redis's format, written while the instance serves.
//!
//! A file is written beside its place under another name, made durable, and then given its name, so
//! that there is a whole one at any time. The caller's thread does all of it.
//!
//! *Not here*: when it is done, and by which thread (server); how a file is read
//! (`file_loading.rs`); the moment that a file stands for
//! (`keyspace/snapshot.rs`).

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::Lsn;
use keyspace::{
    Guard, Keyspace, Snapshot, SnapshotBatch, SnapshotContent, SnapshotEnd, SnapshotOptions,
    SnapshotRuns,
};
use rdb::file::{EntryEncoder, FileForm, FileWriter, LSN_FIELD};

use crate::runtime::Runtime;

/// A file that is not finished is named as Redis names it, around the number of the process.
const TEMPORARY_PREFIX: &str = "temp-";
const TEMPORARY_SUFFIX: &str = ".rdb";
/// For how long a shard is locked at a time, in nanoseconds: a bucket more may be taken then.
const HOLD_NS: u64 = 30_000;
/// The longest pause behind a piece of work, in nanoseconds.
const PAUSE_NS_MAX: u64 = 1_000_000;
/// What writes may have left from which on no pauses are made: what they leave while one large
/// collection is gone through waits until its end.
const HURRY_BYTES: u64 = 8 << 20;
/// After how many pieces without a request a snapshot makes no pauses: some milliseconds.
const QUIET_LOOKS_MAX: u32 = 100;
/// The largest collection that is encoded at once, in bytes.
const WHOLE_BYTES_MAX: u64 = 64 << 10;
/// What is written at once.
const BUFFER_BYTES: usize = 256 << 10;
/// How much is written before the system is asked to make it durable, so that not all of it is in
/// memory when the file ends.
const SYNC_BYTES: u64 = 32 << 20;
/// How often a snapshot begins anew that flushes end.
const RESTARTS_MAX: u32 = 64;
/// What writes may leave to a snapshot, at least and as a share of the memory limit, or of what is
/// in use where there is none.
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
    /// Whether the thread that writes sleeps as long as it works while others use the data: for
    /// one that nobody waits for.
    pub pauses: bool,
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
        self.save_after(path, options, progress, |_| Ok(()))
    }

    /// As [`Runtime::save`]; once the file is durable, and before it takes the place of what is
    /// there, `prepare` does what has to be done first.
    ///
    /// # Errors
    /// [`SaveError`], that of `prepare` too.
    pub fn save_after(
        &self,
        path: &Path,
        options: &SaveOptions,
        progress: &SaveProgress,
        prepare: impl FnOnce(&Saved) -> Result<(), SaveError>,
    ) -> Result<Saved, SaveError> {
        by_temporary(path, |own| {
            let saved = self.save_beside(own, options, progress)?;
            prepare(&saved)?;
            let system = |step| move |error| SaveError::System { step, error };
            fs::rename(own, path).map_err(system("Error moving temp DB file on the final one"))?;
            sync_directory(path).map_err(system("fsync of the directory"))?;
            Ok(saved)
        })
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
                queued_bytes_max: queued_bytes_max(limit, keyspace.used_memory()),
                whole_bytes_max: WHOLE_BYTES_MAX,
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

    /// Writes the dataset to `path` while `guard`, which holds all shards, keeps it as it is.
    pub(crate) fn save_held(
        &self,
        guard: &mut Guard<'_>,
        path: &Path,
        options: &SaveOptions,
    ) -> io::Result<()> {
        by_temporary(path, |own| {
            self.write_held(guard, own, options)?;
            fs::rename(own, path)?;
            sync_directory(path)
        })
    }

    fn write_held(
        &self,
        guard: &mut Guard<'_>,
        path: &Path,
        options: &SaveOptions,
    ) -> io::Result<()> {
        let keyspace = self.keyspace();
        let version = keyspace.export_version();
        let timed = keyspace.databases().any(|database| keyspace.counts(database).timed > 0);
        let form = FileForm { version, has_field_times: timed, has_checksum: options.has_checksum };
        let out = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        let mut writer = FileWriter::begin(out, &form)?;
        writer.field(b"redis-ver", options.redis_version.as_bytes())?;
        let mut encoder = EntryEncoder::new(version, options.compresses);
        let now = self.clock().wall();
        for database in keyspace.databases() {
            let mut written = Ok(());
            guard.access().for_each_encoded(database, &mut encoder, now, &mut |bytes| {
                if written.is_ok() {
                    written = writer.entries(database, bytes);
                }
            });
            written?;
        }
        let out = writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        out.sync_all()
    }
}

/// Whether others use the keyspace while a snapshot is written.
#[derive(Default)]
struct Others {
    uses: u64,
    quiet_looks: u32,
}

impl Others {
    /// Returns whether others have used `keyspace` since one of the last looks at it.
    fn are_there(&mut self, keyspace: &Keyspace) -> bool {
        let uses = keyspace.uses_since_start();
        self.quiet_looks = match uses == self.uses {
            true => self.quiet_looks.saturating_add(1),
            false => 0,
        };
        self.uses = uses;
        self.quiet_looks < QUIET_LOOKS_MAX
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
        let mut others = Others::default();
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
            let is_behind = snapshot.queued_bytes() >= HURRY_BYTES;
            if self.options.pauses && !is_behind && others.are_there(self.runtime.keyspace()) {
                // Who computes without a pause is stopped by the system where it has no other
                // processor for others: while it holds a shard, for milliseconds. Who has slept
                // goes on at once and gets to the end of its hold.
                let worked = clock.steady_ns().saturating_sub(began);
                clock.sleep(Duration::from_nanos(worked.min(PAUSE_NS_MAX)));
            }
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

/// Returns what writes may leave to a snapshot where `limit` is the memory limit, 0 where there is
/// none, and `used` is in use, all in bytes.
fn queued_bytes_max(limit: u64, used: u64) -> u64 {
    let memory = if limit == 0 { used } else { limit };
    QUEUED_BYTES_MIN.max(memory / QUEUED_SHARE)
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
            SnapshotContent::Encoded(bytes) | SnapshotContent::Begin(bytes) => {
                writer.entries(piece.database, bytes)?;
            }
            SnapshotContent::Held(held) => {
                let mut entry = held.head.clone();
                let value = rdb::Stored::String(held.value.as_ref());
                encoder.put(&held.key, held.expires_at, value, &mut entry);
                writer.entries(piece.database, &entry)?;
            }
            SnapshotContent::Parts(kind, parts) => {
                let mut encoded = Vec::new();
                encoder.put_parts(*kind, parts, &mut encoded);
                writer.entries(piece.database, &encoded)?;
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

/// Has `write` write what becomes the file at `path` under another name, one for each process, as
/// Redis's, and give it its own. Where that fails nothing of it is left.
fn by_temporary<R, E>(path: &Path, write: impl FnOnce(&Path) -> Result<R, E>) -> Result<R, E> {
    let name = format!("{TEMPORARY_PREFIX}{}{TEMPORARY_SUFFIX}", std::process::id());
    let own = path.with_file_name(name);
    let written = write(&own);
    if written.is_err() {
        // Where it is not there, there is nothing to remove.
        let _ = fs::remove_file(&own);
    }
    written
}

/// Returns whether a file of this name is one that was not finished, by this process or another.
pub fn is_temporary(name: &str) -> bool {
    let middle = name.strip_prefix(TEMPORARY_PREFIX);
    let id = middle.and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX));
    id.is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embedded, EmbeddedOptions, Environment};

    #[test]
    fn what_may_wait_grows_with_the_memory() {
        const GIB: u64 = 1 << 30;
        assert_eq!(queued_bytes_max(0, GIB), QUEUED_BYTES_MIN);
        assert_eq!(queued_bytes_max(0, 20 * GIB), GIB);
        assert_eq!(queued_bytes_max(20 * GIB, GIB), GIB);
        assert_eq!(queued_bytes_max(GIB, 20 * GIB), QUEUED_BYTES_MIN);
    }

    #[test]
    fn pauses_are_made_while_others_read_or_write_and_end_soon_after() {
        let embedded = Embedded::open(&EmbeddedOptions::default(), Environment::system());
        let embedded = embedded.expect("there is memory");
        let mut session = embedded.session();
        let mut others = Others::default();
        let keyspace = embedded.runtime().keyspace();
        for request in [["GET", "k"].as_slice(), &["SET", "k", "v"], &["GET", "k"]] {
            session.run(request);
            let pauses = (0..1000).take_while(|_| others.are_there(keyspace)).count();
            assert_eq!(pauses, QUIET_LOOKS_MAX as usize, "{request:?}");
        }
    }
}
