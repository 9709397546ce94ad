//! The log of an embedded instance, in the folder and the format that a server has. No thread
//! writes it: who has run a request writes what is new, and under [`SyncPolicy::Always`] makes it
//! durable before it has its reply; sweeps do the rest.
//!
//! Requests run one at a time, but the log is written outside of their turn: while one thread
//! waits for the disk others run requests, and what they have changed becomes durable together.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;
use std::{fs, io};

use base::Lsn;
use effects::WriteRefusal;
use sys::error_text::base_text;
use sys::fork::Generation;
use wal::{SEGMENT_BYTES, Storage, WriteError};

use crate::embedded::{Embedded, locked};
use crate::file_loading::{ExpiredKeys, LoadOptions};
use crate::log_folder::{
    LOG_FOLDER, LogFolder, SyncPolicy, UNTAKEN_BYTES_MAX, earlier_snapshots, has_log_in, redis_log,
};
use crate::options::OpenError;
use crate::record_log::RecordLog;
use crate::runtime::Runtime;
use crate::snapshot_file::{SaveOptions, SaveProgress, sync_directory};

/// The file of a dataset that is kept without a log, as it is called by default.
const DATASET_FILE: &str = "dump.rdb";
/// Records that are not written, in bytes, behind which a request writes them whatever the policy.
const PROMPT_BYTES: u64 = 256 << 10;
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
    /// The last write has failed: no request tries it again, but sweeps do.
    is_stuck: AtomicBool,
    /// Locked while the log is written and made durable.
    log: Mutex<RecordLog>,
    snapshot: Mutex<Snapshot>,
    /// Locked while a snapshot is written.
    rewriting: Mutex<()>,
    /// Why the log could not be written, where it could not.
    failure: Mutex<Option<String>>,
    /// Of the process that writes: a forked child has a copy, and must not.
    generation: Generation,
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
        let log = refuse_other_data(&options.folder)
            .and_then(|()| {
                let failed =
                    |error| format!("'{}' cannot be made: {error}", options.folder.display());
                make_durably(&options.folder).map_err(failed)
            })
            .and_then(|()| LogFolder::open(options.folder.join(LOG_FOLDER)))
            .and_then(|folder| EmbeddedLog::open_in(folder, options, runtime));
        log.map_err(OpenError::Log)
    }

    /// As [`EmbeddedLog::open`], of the log in `folder`.
    pub fn open_in(
        folder: LogFolder,
        options: &LogOptions,
        runtime: &Runtime,
    ) -> Result<EmbeddedLog, String> {
        folder.forget_unfinished()?;
        let (snapshot, snapshot_bytes) = load_snapshot(&folder, runtime)?.unzip();
        let end = folder.replay(snapshot, runtime, &mut ())?;
        let snapshot_path = folder.snapshot_path();
        let log = folder.resume(options.segment_bytes, runtime, snapshot, &end)?;
        let lsn = log.writer.lsn();
        let snapshot = Snapshot {
            lsn: log.based_on,
            bytes: snapshot_bytes.unwrap_or(0),
            needed_from: log.groups.slowest(lsn, 0),
            failure: None,
            ended_at: Duration::ZERO,
        };
        let consumer = runtime.backlog().required_consumer(UNTAKEN_BYTES_MAX);
        let log = RecordLog::new(log, consumer, runtime.steady());
        Ok(EmbeddedLog {
            sync: options.sync,
            rewrite_bytes: options.rewrite_bytes,
            snapshot_path,
            storage: Arc::clone(log.storage()),
            written: AtomicU64::new(lsn),
            durable: AtomicU64::new(lsn),
            is_stuck: AtomicBool::new(false),
            log: Mutex::new(log),
            snapshot: Mutex::new(snapshot),
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
        let latest = runtime.latest_lsn().0;
        match self.is_settled(latest) {
            true => Ok(()),
            false => self.settle_to(latest, runtime),
        }
    }

    /// As [`EmbeddedLog::settle`], of what was changed up to `latest`.
    #[inline(never)]
    fn settle_to(&self, latest: u64, runtime: &Runtime) -> Result<(), String> {
        self.check_process()?;
        let mut log = locked(&self.log);
        // Whoever had it before may have done all of this.
        if self.is_settled(latest) {
            return Ok(());
        }
        // Sweeps try a full disk again: if each read did, all would wait for it in turn.
        if self.is_stuck.load(Ordering::Relaxed) {
            return Err(self.reason());
        }
        let settled = self.write(&mut log, runtime, self.sync == SyncPolicy::Always);
        match self.sync {
            // The disk may have been full only behind `latest`.
            SyncPolicy::Always if self.is_settled(latest) => Ok(()),
            SyncPolicy::Always => settled,
            // Nobody was promised anything, and from now on writes are refused.
            SyncPolicy::EverySecond | SyncPolicy::Never => Ok(()),
        }
    }

    fn is_settled(&self, latest: u64) -> bool {
        match self.sync {
            SyncPolicy::Always => self.durable.load(Ordering::Acquire) >= latest,
            SyncPolicy::EverySecond | SyncPolicy::Never => {
                let unwritten = latest.saturating_sub(self.written.load(Ordering::Relaxed));
                unwritten < PROMPT_BYTES || self.is_stuck.load(Ordering::Relaxed)
            }
        }
    }

    /// Writes all that there is now and makes it durable.
    ///
    /// # Errors
    /// When that cannot be.
    pub fn sync(&self, runtime: &Runtime) -> Result<(), String> {
        self.check_process()?;
        self.write(&mut locked(&self.log), runtime, true)
    }

    /// Does what is to be done now and then: writes what there is, makes it durable where it is
    /// time, and writes a snapshot where the log is long.
    pub fn sweep(&self, runtime: &Runtime) {
        if self.check_process().is_err() {
            return;
        }
        let now = runtime.steady();
        let mut log = locked(&self.log);
        let is_due = log.is_sync_due(self.sync, now);
        // Writes are refused where it fails, and the report says why.
        let _ = self.write(&mut log, runtime, is_due);
        let has_ended = log.writer().is_none();
        drop(log);
        if has_ended {
            return;
        }
        // A snapshot makes room where the disk is full. Whoever writes one does so for all.
        let _one = match self.rewriting.try_lock() {
            Ok(one) => one,
            // Whoever had it has panicked, and nothing is behind it that could be half done.
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if self.wants_snapshot(now) {
            // The report says why not.
            let _ = self.rewrite_alone(runtime);
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
        self.check_process()?;
        let _one = locked(&self.rewriting);
        self.rewrite_alone(runtime)
    }

    /// As [`EmbeddedLog::rewrite`], by who has locked that.
    fn rewrite_alone(&self, runtime: &Runtime) -> Result<(), String> {
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
        // A log that a power cut leaves behind its snapshot would be begun anew, without what came
        // before. Where the disk is full, or the log has failed, that is as good as it gets.
        let make_log_durable = |_: &_| {
            let _ = self.write(&mut locked(&self.log), runtime, true);
            Ok(())
        };
        let progress = SaveProgress::default();
        let saved = runtime.save_after(&self.snapshot_path, &options, &progress, make_log_durable);
        let saved = saved.map_err(|error| {
            format!("'{}' cannot be written: {error}", self.snapshot_path.display())
        })?;
        let needed_from = {
            let mut snapshot = locked(&self.snapshot);
            (snapshot.lsn, snapshot.bytes) = (saved.lsn, saved.bytes);
            snapshot.needed_from
        };
        self.forget_before(needed_from.map_or(saved.lsn.0, |lsn| lsn.min(saved.lsn.0)))
            .map_err(|error| format!("a part of the log that is not needed stays: {error}"))
    }

    /// Removes what the log has before `lsn`, unless a server keeps history there.
    fn forget_before(&self, lsn: u64) -> io::Result<()> {
        match earlier_snapshots(&*self.storage)?.is_empty() {
            true => wal::forget_before(&*self.storage, lsn),
            false => Ok(()),
        }
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
        let mut log = locked(&self.log);
        if log.writer().is_none() && locked(&self.failure).is_none() {
            return Ok(());
        }
        self.write(&mut log, runtime, true)?;
        let closed = log.take_writer().close();
        closed.map_err(|error| format!("the log has no mark of its end: {error}"))
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

    /// Writes all that there is now, and makes what was written durable where `syncs`.
    fn write(&self, log: &mut RecordLog, runtime: &Runtime, syncs: bool) -> Result<(), String> {
        if log.writer().is_none() {
            return Err(self.reason());
        }
        // What others change meanwhile is theirs to write: there might be no end to it.
        let mut written = log.write_until(log.consumer().latest());
        // What was written before the disk was full is made durable all the same.
        if syncs && !matches!(written, Err(WriteError::Failed(_))) {
            let synced = log.sync(runtime.steady()).map(drop);
            written = synced.and(written);
        }
        if let Some(writer) = log.writer() {
            self.written.store(writer.lsn(), Ordering::Relaxed);
            self.durable.store(writer.durable_lsn(), Ordering::Release);
        }
        let admission = runtime.keyspace().admission();
        match &written {
            Ok(_) => admission.allow(WriteRefusal::DiskFull),
            Err(WriteError::Full(error)) => admission.refuse_for(WriteRefusal::DiskFull, error),
            Err(WriteError::Failed(error)) => {
                admission.refuse_for(WriteRefusal::LogFailed, error);
                log.fail();
            }
        }
        self.is_stuck.store(written.is_err(), Ordering::Relaxed);
        let words = |(WriteError::Full(error) | WriteError::Failed(error))| base_text(&error);
        let failure = written.err().map(words);
        locked(&self.failure).clone_from(&failure);
        failure.map_or(Ok(()), Err)
    }

    /// Returns why the log is not written, to whoever has locked it.
    fn reason(&self) -> String {
        locked(&self.failure).clone().unwrap_or_else(|| "the log has ended".to_owned())
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
    missing.into_iter().try_for_each(sync_directory)
}

/// Refuses `directory` where it has data but no log of this kind: they would be hidden by those of
/// the log, and overwritten by a server's snapshots.
fn refuse_other_data(directory: &Path) -> Result<(), String> {
    let folder = directory.join(LOG_FOLDER);
    let failed = |error: io::Error| format!("'{}' cannot be read: {error}", directory.display());
    if has_log_in(&folder).map_err(failed)? {
        return Ok(());
    }
    let dataset = Some(directory.join(DATASET_FILE)).filter(|file| file.exists());
    match redis_log(directory, &folder).map_err(failed)?.or(dataset) {
        None => Ok(()),
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
