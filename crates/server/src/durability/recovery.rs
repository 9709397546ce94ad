//! What happens with a log when a server starts: the data are made from it, while the workers
//! answer with LOADING already, and it is opened to be gone on with.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use base::Lsn;
use runtime::{
    ExpiredKeys, GROUPS_NAME, LogFolder, OpenLog, ReplayObserver, Runtime, SNAPSHOT_NAME,
    SaveProgress, earlier_snapshots, has_log_in, redis_log, snapshot_name,
};
use wal::Begin;

use crate::config::options::Settings;
use crate::loading::Loading;
use crate::persistence::{dataset_path, load_file, save_options};

/// Opens the folder of the log and claims it.
///
/// # Errors
/// A sentence that says why not.
pub fn open_folder(settings: &Settings) -> Result<LogFolder, String> {
    LogFolder::open(folder_of(settings))
}

/// Returns a log of Redis that is where this server looks for its own, if there is any.
///
/// # Errors
/// When the folder cannot be read.
pub fn found_redis_log(settings: &Settings) -> io::Result<Option<PathBuf>> {
    redis_log(&settings.daemon.directory, &folder_of(settings))
}

/// Returns the folder that the configuration names for the log, where it has a log of Forebay.
///
/// # Errors
/// When the folder cannot be read.
pub fn found_own_log(settings: &Settings) -> io::Result<Option<PathBuf>> {
    let folder = folder_of(settings);
    Ok(has_log_in(&folder)?.then_some(folder))
}

fn folder_of(settings: &Settings) -> PathBuf {
    settings.daemon.directory.join(&settings.persistence.log_directory)
}

/// Writes a snapshot of the data of `runtime`, which come from elsewhere, to `folder` and begins a
/// log that goes on from it.
///
/// # Errors
/// A sentence that says why the server cannot start.
pub fn begin_with_data(
    folder: LogFolder,
    settings: &Settings,
    runtime: &Runtime,
) -> Result<OpenLog, String> {
    folder.forget_unfinished()?;
    let lsn = folder.save_snapshot(&save_options(settings), runtime, &SaveProgress::default())?;
    let segment_bytes = settings.persistence.log_segment_bytes;
    let log = folder.begin(segment_bytes, runtime, lsn, Begin::Snapshot)?;
    runtime.begin_stream_at(Lsn(log.writer.lsn()));
    runtime.reset_counters();
    Ok(log)
}

/// Makes the data of `runtime`, which has none, from what is in `folder`, and opens the log. The
/// stream of `runtime` goes on where the log ends.
///
/// # Errors
/// A sentence that says why the server cannot start, or that `loading` was cancelled.
pub fn recover(
    folder: LogFolder,
    settings: &Settings,
    runtime: &Runtime,
    loading: &Loading,
) -> Result<OpenLog, String> {
    folder.forget_unfinished()?;
    let snapshot = load_snapshot(&folder, settings, runtime, loading)?;
    let begun = sys::clock::monotonic();
    let mut observer = loading;
    let end = folder.replay(snapshot, runtime, &mut observer)?;
    if end.torn_bytes > 0 {
        tracing::warn!(
            bytes = end.torn_bytes,
            segment = end.segment.as_deref().unwrap_or_default(),
            offset = end.offset,
            "The append-only file ends in what it does not call durable, which is cut"
        );
    }
    let took = (sys::clock::monotonic() - begun).as_secs_f64();
    let start = snapshot.unwrap_or(Lsn(0)).0;
    if end.lsn > start {
        tracing::info!("DB loaded from append only file: {took:.3} seconds");
    }
    if end.segment.is_some() && end.lsn < start {
        tracing::warn!(
            end = end.lsn,
            snapshot = start,
            "The append-only file ends before the LSN of its snapshot, and begins anew there: \
             earlier moments cannot be restored any more"
        );
    }
    folder.resume(settings.persistence.log_segment_bytes, runtime, snapshot, &end)
}

/// Loads the snapshot that the log goes on from, if there is one, and returns the LSN that the
/// data stand for then. Where there is no log either, a dataset that was kept without one becomes
/// that snapshot.
fn load_snapshot(
    folder: &LogFolder,
    settings: &Settings,
    runtime: &Runtime,
    loading: &Loading,
) -> Result<Option<Lsn>, String> {
    let path = folder.snapshot_path();
    if let Some(loaded) = load_file(runtime, &path, ExpiredKeys::Made, loading)? {
        let lsn = loaded.lsn.ok_or_else(|| {
            format!("'{}' does not say where the log goes on from it", path.display())
        })?;
        return Ok(Some(lsn));
    }
    if folder.has_log()? {
        return Ok(None);
    }
    let dataset = dataset_path(settings);
    if load_file(runtime, &dataset, ExpiredKeys::LeftOut, loading)?.is_none() {
        return Ok(None);
    }
    folder.save_snapshot(&save_options(settings), runtime, &SaveProgress::default()).map(Some)
}

/// Removes the log of `folder` and then its snapshot, so that what a power cut leaves is a log that
/// can be read, or none.
///
/// # Errors
/// A sentence that says why not.
pub(super) fn clear(folder: &LogFolder) -> Result<(), String> {
    folder.forget_unfinished()?;
    let storage = &**folder.storage();
    let remove = || {
        wal::remove_log(storage)?;
        for lsn in earlier_snapshots(storage)? {
            storage.remove(&snapshot_name(lsn))?;
        }
        // Groups have read what is gone.
        for name in [GROUPS_NAME, SNAPSHOT_NAME] {
            match storage.remove(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        storage.sync_directory()
    };
    remove().map_err(|error| folder.cannot_remove(&error))
}

impl ReplayObserver for &Loading {
    fn begin(&mut self, file_bytes: u64) {
        self.expect(file_bytes);
    }

    fn note(&mut self, read_bytes: u64) -> ControlFlow<()> {
        Loading::note(self, read_bytes)
    }

    fn end(&mut self, read_bytes: u64) {
        self.end_file(read_bytes);
    }
}
