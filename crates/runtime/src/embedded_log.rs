//! The log of an embedded instance, in the folder and the format that a server has. No thread
//! writes it: who has run a request writes what is new, and under [`SyncPolicy::Always`] makes it
//! durable before it has its reply; sweeps do the rest.
//!
//! Requests run one at a time, but the log is written outside of their turn: while one thread
//! waits for the disk others run requests, and what they have changed becomes durable together.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use std::{fs, io};

use base::Lsn;
use effects::{Consumer, SharedRecords, WriteRefusal};
use sys::fork::Generation;
use wal::{SEGMENT_BYTES, Storage, WriteError, Writer};

use crate::embedded::{Embedded, locked};
use crate::file_loading::{ExpiredKeys, LoadOptions};
use crate::log_folder::{LogFolder, OpenLog, SyncPolicy, is_earlier_snapshot};
use crate::options::OpenError;
use crate::runtime::Runtime;
use crate::snapshot_file::{SaveError, SaveOptions, SaveProgress};

/// The folder of the log within that of the data: where a server has it by default.
const LOG_FOLDER: &str = "appendonlydir";
/// How the manifest of Redis's append-only files is called.
const MANIFEST_SUFFIX: &str = ".manifest";
/// Files with data that are of no such log: of Redis, and of a server that keeps none.
const OTHER_DATA: [&str; 2] = ["dump.rdb", "appendonly.aof"];
/// The most bytes of records in one frame, but for a record that is longer.
const FRAME_BYTES_MAX: usize = 8 << 20;
/// Records that are not written, in bytes, behind which a request writes them whatever the policy.
const PROMPT_BYTES: u64 = 256 << 10;
/// Records that are not written, in bytes, behind which no write is admitted.
const UNTAKEN_BYTES_MAX: u64 = 256 << 20;
/// How often the log is made durable under [`SyncPolicy::EverySecond`].
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// How long after a snapshot that failed a sweep tries the next.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// How an embedded instance keeps its data on the disk.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The folder of the data, `dir` of a server, which is made where it is not there. One instance
    /// at a time has it. Data that are there without a log of this kind, as `dump.rdb` and the
    /// append-only files of Redis, are refused: a server that is started there with `appendonly
    /// yes` takes them over.
    pub folder: PathBuf,
    /// When what was written is made durable. Each second means with the first sweep behind that.
    pub sync: SyncPolicy,
    /// How long the files of the log are, in bytes, 4096 or more.
    pub segment_bytes: u64,
    /// How many bytes of the log are behind its snapshot, and at least as many as that has, before
    /// a sweep writes a new one and removes what that has: 0 for no such snapshots. Nothing is
    /// removed while there are earlier snapshots, which a server keeps where it keeps history.
    pub rewrite_bytes: u64,
}

impl LogOptions {
    /// Returns the options of data in `folder` each change of which is durable before its reply.
    pub fn new(folder: impl Into<PathBuf>) -> LogOptions {
        LogOptions {
            folder: folder.into(),
            sync: SyncPolicy::Always,
            segment_bytes: SEGMENT_BYTES,
            rewrite_bytes: 64 << 20,
        }
    }
}

/// How it stands with the log of an embedded instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// The LSN of the last record that is written.
    pub written: Lsn,
    /// The LSN of the last record that is durable.
    pub durable: Lsn,
    /// The bytes of the snapshot that it goes on from.
    pub snapshot_bytes: u64,
    /// The bytes of records behind that.
    pub bytes_behind_snapshot: u64,
    /// Why the log could not be written or made durable, where it could not.
    pub failure: Option<String>,
    /// Why the last snapshot was not written, or not all removed that it has, where that was so.
    pub rewrite_failure: Option<String>,
}

/// The log of an instance.
pub(crate) struct EmbeddedLog {
    sync: SyncPolicy,
    rewrite_bytes: u64,
    snapshot_path: PathBuf,
    storage: Arc<dyn Storage>,
    written: AtomicU64,
    durable: AtomicU64,
    /// Locked while the log is written and made durable.
    end: Mutex<End>,
    snapshot: Mutex<Snapshot>,
    /// Locked while a snapshot is written.
    rewriting: Mutex<()>,
    /// Why the log could not be written, where it could not.
    failure: Mutex<Option<String>>,
    /// Of the process that writes: a forked child has a copy, and must not.
    generation: Generation,
}

/// The end of the log.
struct End {
    /// None once it has failed or has ended.
    writer: Option<Writer>,
    consumer: Consumer,
    /// Records that are to be written.
    records: SharedRecords,
    /// By the steady clock.
    synced_at: Duration,
    _lock: wal::Lock,
}

/// The snapshot that the log goes on from.
struct Snapshot {
    lsn: Lsn,
    bytes: u64,
    /// The LSN behind which a reader of the log still has to read, if there is one.
    needed_from: Option<u64>,
    failure: Option<String>,
    /// When the last was written, or was not, by the steady clock.
    ended_at: Duration,
}

impl EmbeddedLog {
    /// Makes the data of `runtime`, which has none, from what is in the folder, and opens its log.
    ///
    /// # Errors
    /// When the folder is another's, or what is there cannot be read to its end.
    pub fn open(options: &LogOptions, runtime: &Runtime) -> Result<EmbeddedLog, OpenError> {
        let path = options.folder.join(LOG_FOLDER);
        let folder = make_durably(&options.folder)
            .map_err(|error| format!("'{}' cannot be made: {error}", options.folder.display()))
            .and_then(|()| LogFolder::open(path))
            .and_then(|folder| refuse_other_data(folder, &options.folder));
        let log = folder.and_then(|folder| EmbeddedLog::open_in(folder, options, runtime));
        log.map_err(OpenError::Log)
    }

    /// As [`EmbeddedLog::open`], of the log in `folder`.
    pub fn open_in(
        folder: LogFolder,
        options: &LogOptions,
        runtime: &Runtime,
    ) -> Result<EmbeddedLog, String> {
        folder.forget_unfinished()?;
        let (snapshot, bytes) = load_snapshot(&folder, runtime)?.unzip();
        let end = folder.replay(snapshot, runtime, &mut ())?;
        let snapshot_path = folder.snapshot_path();
        let log = folder.resume(options.segment_bytes, runtime, snapshot, &end)?;
        let consumer = runtime.backlog().required_consumer(UNTAKEN_BYTES_MAX);
        let lsn = log.writer.lsn();
        assert_eq!(consumer.position().0, lsn, "the log goes on where the stream begins");
        let OpenLog { storage, lock, writer, based_on, groups, .. } = log;
        let position = || AtomicU64::new(lsn);
        Ok(EmbeddedLog {
            sync: options.sync,
            rewrite_bytes: options.rewrite_bytes,
            snapshot_path,
            storage,
            written: position(),
            durable: position(),
            end: Mutex::new(End {
                writer: Some(writer),
                consumer,
                records: SharedRecords::default(),
                synced_at: runtime.steady(),
                _lock: lock,
            }),
            snapshot: Mutex::new(Snapshot {
                lsn: based_on,
                bytes: bytes.unwrap_or(0),
                needed_from: groups.slowest(lsn, 0),
                failure: None,
                ended_at: Duration::ZERO,
            }),
            rewriting: Mutex::new(()),
            failure: Mutex::new(None),
            generation: Generation::current(),
        })
    }

    /// Writes what a request has left to be written, and makes it durable where its reply has to
    /// wait for that; costs two loads where there is nothing to do.
    ///
    /// # Errors
    /// When that cannot be: it is not known whether what was asked, or what it saw, is there after
    /// the next start.
    pub fn settle(&self, runtime: &Runtime) -> Result<(), String> {
        let latest = latest(runtime);
        if self.is_settled(latest) {
            return Ok(());
        }
        self.check_process()?;
        let mut end = locked(&self.end);
        // Whoever had it before may have done all of this.
        if self.is_settled(latest) {
            return Ok(());
        }
        let settled = self.write(&mut end, runtime, self.sync == SyncPolicy::Always);
        match self.sync {
            SyncPolicy::Always => settled,
            // Nobody was promised anything, and from now on writes are refused.
            SyncPolicy::EverySecond | SyncPolicy::Never => Ok(()),
        }
    }

    fn is_settled(&self, latest: u64) -> bool {
        match self.sync {
            SyncPolicy::Always => self.durable.load(Ordering::Acquire) >= latest,
            SyncPolicy::EverySecond | SyncPolicy::Never => {
                latest.saturating_sub(self.written.load(Ordering::Relaxed)) < PROMPT_BYTES
            }
        }
    }

    /// Writes all that there is and makes it durable.
    ///
    /// # Errors
    /// When that cannot be.
    pub fn sync(&self, runtime: &Runtime) -> Result<(), String> {
        self.check_process()?;
        self.write(&mut locked(&self.end), runtime, true)
    }

    /// Does what is to be done now and then: writes what there is, makes it durable where it is
    /// time, and writes a snapshot where the log is long.
    pub fn sweep(&self, runtime: &Runtime) {
        if self.check_process().is_err() {
            return;
        }
        let now = runtime.steady();
        let mut end = locked(&self.end);
        let is_due = match self.sync {
            SyncPolicy::Always => true,
            SyncPolicy::EverySecond => now.saturating_sub(end.synced_at) >= SYNC_INTERVAL,
            SyncPolicy::Never => false,
        };
        // Writes are refused where it fails, and the report says why.
        let written = self.write(&mut end, runtime, is_due);
        drop(end);
        if written.is_ok() && self.wants_snapshot(now) {
            // The report says why not.
            let _ = self.rewrite(runtime);
        }
    }

    fn wants_snapshot(&self, now: Duration) -> bool {
        let snapshot = locked(&self.snapshot);
        let behind = self.written.load(Ordering::Relaxed).saturating_sub(snapshot.lsn.0);
        let has_rested =
            snapshot.failure.is_none() || now.saturating_sub(snapshot.ended_at) >= RETRY_INTERVAL;
        self.rewrite_bytes > 0 && behind >= self.rewrite_bytes.max(snapshot.bytes) && has_rested
    }

    /// Writes a snapshot of the data and removes what of the log it has, but what readers that are
    /// known by name still have to read.
    ///
    /// # Errors
    /// When it cannot be written, or something cannot be removed.
    pub fn rewrite(&self, runtime: &Runtime) -> Result<(), String> {
        let _one = locked(&self.rewriting);
        let written = self.write_snapshot(runtime);
        let mut snapshot = locked(&self.snapshot);
        snapshot.failure = written.as_ref().err().cloned();
        snapshot.ended_at = runtime.steady();
        written
    }

    fn write_snapshot(&self, runtime: &Runtime) -> Result<(), String> {
        let options = SaveOptions {
            redis_version: command::REDIS_VERSION.to_owned(),
            compresses: true,
            has_checksum: true,
            pauses: false,
        };
        // A log that a power cut leaves behind its snapshot would be begun anew.
        let make_log_durable = |_: &_| {
            let failed =
                |reason| SaveError::System { step: "log", error: io::Error::other(reason) };
            self.sync(runtime).map_err(failed)
        };
        let progress = SaveProgress::default();
        let saved = runtime.save_after(&self.snapshot_path, &options, &progress, make_log_durable);
        let saved = saved.map_err(|error| {
            format!("'{}' cannot be written: {error}", self.snapshot_path.display())
        })?;
        let mut snapshot = locked(&self.snapshot);
        (snapshot.lsn, snapshot.bytes) = (saved.lsn, saved.bytes);
        let names = self.storage.list().map_err(|error| error.to_string())?;
        if names.iter().any(|name| is_earlier_snapshot(name)) {
            return Ok(());
        }
        let needed = snapshot.needed_from.map_or(saved.lsn.0, |lsn| lsn.min(saved.lsn.0));
        wal::forget_before(&*self.storage, needed)
            .map_err(|error| format!("a part of the log that is not needed stays: {error}"))
    }

    /// Writes what is left, makes it durable and ends the log in order. Where it has ended, or in a
    /// forked child, nothing happens.
    ///
    /// # Errors
    /// When that cannot be.
    pub fn end(&self, runtime: &Runtime) -> Result<(), String> {
        if self.check_process().is_err() {
            return Ok(());
        }
        let mut end = locked(&self.end);
        if end.writer.is_none() && locked(&self.failure).is_none() {
            return Ok(());
        }
        self.write(&mut end, runtime, true)?;
        let writer = end.writer.take().expect("it was written by it");
        writer.close().map_err(|error| format!("the log has no mark of its end: {error}"))
    }

    /// Returns how it stands.
    pub fn report(&self) -> LogReport {
        let snapshot = locked(&self.snapshot);
        let written = self.written.load(Ordering::Relaxed);
        LogReport {
            written: Lsn(written),
            durable: Lsn(self.durable.load(Ordering::Relaxed)),
            snapshot_bytes: snapshot.bytes,
            bytes_behind_snapshot: written.saturating_sub(snapshot.lsn.0),
            failure: locked(&self.failure).clone(),
            rewrite_failure: snapshot.failure.clone(),
        }
    }

    /// Returns when it is made durable.
    pub fn policy(&self) -> SyncPolicy {
        self.sync
    }

    fn write(
        &self,
        end: &mut MutexGuard<'_, End>,
        runtime: &Runtime,
        syncs: bool,
    ) -> Result<(), String> {
        let Some(writer) = &end.writer else {
            let failure = locked(&self.failure).clone();
            return Err(failure.unwrap_or_else(|| "the log has ended".to_owned()));
        };
        let before = writer.durable_lsn();
        let written = end.write_all().and_then(|()| if syncs { end.sync() } else { Ok(()) });
        if let Some(writer) = &end.writer {
            self.written.store(writer.lsn(), Ordering::Relaxed);
            self.durable.store(writer.durable_lsn(), Ordering::Release);
            if writer.durable_lsn() > before {
                end.synced_at = runtime.steady();
            }
        }
        let admission = runtime.keyspace().admission();
        let is_full = matches!(written, Err(WriteError::Full(_)));
        match is_full {
            true => admission.refuse(WriteRefusal::DiskFull),
            false => admission.allow(WriteRefusal::DiskFull),
        }
        if matches!(written, Err(WriteError::Failed(_))) {
            // Nobody knows what of the last bytes is on the disk.
            admission.refuse(WriteRefusal::LogFailed);
            end.writer = None;
            end.forget_records();
        }
        let written = written.map_err(|error| error.to_string());
        *locked(&self.failure) = written.as_ref().err().cloned();
        written
    }

    /// Refuses to touch the log in a forked child, where a thread may have held its locks that is
    /// not there.
    fn check_process(&self) -> Result<(), String> {
        match self.generation.is_current() {
            true => Ok(()),
            false => Err("the log is that of the process which has forked".to_owned()),
        }
    }
}

impl End {
    /// Writes frames of all that there is.
    fn write_all(&mut self) -> Result<(), WriteError> {
        loop {
            if self.records.is_empty() {
                let taken = self.consumer.share(FRAME_BYTES_MAX, &mut self.records);
                taken.expect("records are kept for a consumer that is waited for");
            }
            if self.records.is_empty() {
                return Ok(());
            }
            let writer = self.writer.as_mut().expect("it has not failed");
            writer.append_pieces(self.records.pieces())?;
            self.forget_records();
        }
    }

    fn sync(&mut self) -> Result<(), WriteError> {
        let writer = self.writer.as_mut().expect("it has not failed");
        match writer.durable_lsn() < writer.lsn() {
            true => writer.sync(),
            false => Ok(()),
        }
    }

    fn forget_records(&mut self) {
        let End { consumer, records, .. } = self;
        consumer.be_done(records);
    }
}

impl Embedded {
    /// Writes all changes so far to the log and makes them durable, whatever its policy is.
    ///
    /// # Errors
    /// When no log is kept, or it cannot be.
    pub fn sync_log(&self) -> Result<(), String> {
        self.kept_log()?.sync(self.runtime())
    }

    /// Writes a snapshot of the data beside the log and removes what of the log it has. Other
    /// threads may run requests meanwhile. Sweeps do it by themselves where the log is long.
    ///
    /// # Errors
    /// When no log is kept, or the snapshot cannot be written.
    pub fn rewrite_log(&self) -> Result<(), String> {
        self.kept_log()?.rewrite(self.runtime())
    }

    /// Returns how it stands with the log; none where none is kept.
    pub fn log_report(&self) -> Option<LogReport> {
        self.log.as_ref().map(EmbeddedLog::report)
    }

    fn kept_log(&self) -> Result<&EmbeddedLog, String> {
        self.log.as_ref().ok_or_else(|| "no log is kept".to_owned())
    }
}

/// Makes the folder at `path` and those above it, where they are not there, so that a power cut
/// leaves them.
fn make_durably(path: &Path) -> io::Result<()> {
    let missing = path.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.exists());
    let missing: Vec<&Path> = missing.collect();
    fs::create_dir_all(path)?;
    missing.into_iter().try_for_each(|made| {
        let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty());
        fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    })
}

/// Refuses a folder of a log that is new, where its parent `directory` has data of another kind:
/// they would be hidden by those of the log, and overwritten by a server's snapshots.
fn refuse_other_data(folder: LogFolder, directory: &Path) -> Result<LogFolder, String> {
    if folder.has_log()? || folder.snapshot_path().exists() {
        return Ok(folder);
    }
    let names = folder.storage().list().map_err(|error| error.to_string())?;
    let manifest = names.iter().find(|name| name.ends_with(MANIFEST_SUFFIX));
    let manifest = manifest.map(|name| folder.path().join(name));
    let files = OTHER_DATA.iter().map(|name| directory.join(name)).find(|file| file.exists());
    match manifest.or(files) {
        None => Ok(folder),
        Some(file) => Err(format!(
            "there are data in '{}', which an embedded instance does not take over: start a server \
             with 'dir {}' and 'appendonly yes' once, or take them away",
            file.display(),
            directory.display()
        )),
    }
}

/// Loads the snapshot in `folder`, if there is one; returns the LSN that the data stand for then,
/// and its bytes.
fn load_snapshot(folder: &LogFolder, runtime: &Runtime) -> Result<Option<(Lsn, u64)>, String> {
    let path = folder.snapshot_path();
    let failed = |reason: &dyn std::fmt::Display| {
        format!("the snapshot '{}' cannot be read: {reason}", path.display())
    };
    let file = match fs::File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| failed(&error))?,
    };
    let file_bytes = file.metadata().map_err(|error| failed(&error))?.len();
    let options = LoadOptions { expired: ExpiredKeys::Made, helpers: 0, file_bytes };
    let loaded = runtime.load(file, &options, &mut ()).map_err(|error| failed(&error))?;
    let lsn = loaded.lsn.ok_or_else(|| failed(&"it does not say where the log goes on from it"))?;
    Ok(Some((lsn, file_bytes)))
}

#[cfg(test)]
mod tests;

/// Returns the LSN of the last change.
fn latest(runtime: &Runtime) -> u64 {
    runtime.kept_backlog().map_or(0, |backlog| backlog.latest().0)
}
