//! What happens with a log when a server starts: the data are made from it, while the workers
//! answer with LOADING already, and it is opened to be gone on with.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::{fmt, io, thread};

use base::Lsn;
use engine::Applier;
use runtime::{ExpiredKeys, Runtime, SaveProgress};
use sys::crash::AlternateStack;
use wal::{Begin, Directory, LogEnd, Reader, Storage, Writer, WriterOptions};

use super::feed::groups::{FILE_NAME, Groups};
use super::history::{earlier_snapshots, snapshot_name};
use crate::config::base_text;
use crate::config::options::Settings;
use crate::import::append_only::manifest_in;
use crate::loading::Loading;
use crate::persistence::{dataset_path, load_file, save_options};

/// The append-only file of Redis before 7, in the folder of the server.
const REDIS_FILE: &str = "appendonly.aof";

/// The file in the folder of the log that has the data which the log goes on from.
pub const SNAPSHOT_NAME: &str = "base.rdb";

/// A log to be written, and the claim to its folder.
pub struct OpenLog {
    pub(super) path: PathBuf,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) lock: wal::Lock,
    pub(super) writer: Writer,
    /// The LSN of the snapshot that it goes on from.
    pub(super) based_on: Lsn,
    /// Those who read it by name.
    pub(super) groups: Groups,
}

impl fmt::Debug for OpenLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OpenLog({})", self.writer.lsn())
    }
}

/// How many frames are read ahead, beside the one that is being read.
const FRAMES_AHEAD: usize = 1;

/// A frame that was read.
struct Frame {
    payload: Vec<u8>,
    /// How much of the log was read with it.
    read_bytes: u64,
}

/// The folder of a log, claimed.
pub struct Folder {
    pub(super) path: PathBuf,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) lock: wal::Lock,
}

/// Opens the folder of the log and claims it.
///
/// # Errors
/// A sentence that says why not.
pub fn open_folder(settings: &Settings) -> Result<Folder, String> {
    let path = settings.daemon.directory.join(&settings.persistence.log_directory);
    let failed = |what: &str, error: io::Error| {
        format!(
            "Can't {what} the append-only directory '{}': {}",
            path.display(),
            base_text(&error)
        )
    };
    let directory = Directory::open(&path).map_err(|error| failed("open or create", error))?;
    let lock = directory.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => format!(
            "Another server uses the append-only directory '{}': one directory is for one server",
            path.display()
        ),
        _ => failed("lock", error),
    })?;
    let storage: Arc<dyn Storage> = Arc::new(directory);
    Ok(Folder { path, storage, lock })
}

/// Returns a log of Redis that is where this server looks for its own, if there is any: the
/// manifest of Redis 7 in the folder of the log, or the one file of Redis before.
///
/// # Errors
/// When the folder cannot be read.
pub fn redis_log(settings: &Settings) -> io::Result<Option<PathBuf>> {
    let directory = &settings.daemon.directory;
    let manifest = manifest_in(&directory.join(&settings.persistence.log_directory))?;
    let file = directory.join(REDIS_FILE);
    Ok(manifest.or_else(|| file.exists().then_some(file)))
}

impl Folder {
    /// Returns whether there is neither a log nor a snapshot here.
    ///
    /// # Errors
    /// A sentence that says why nobody knows.
    pub fn is_new(&self) -> Result<bool, String> {
        let log = Reader::open(Arc::clone(&self.storage)).map_err(|error| error.to_string())?;
        Ok(log.begins_at().is_none() && !self.snapshot_path().exists())
    }

    /// Writes a snapshot of the data of `runtime`, which come from elsewhere, and begins a log that
    /// goes on from it.
    ///
    /// # Errors
    /// A sentence that says why the server cannot start.
    pub fn begin_with_data(
        self,
        settings: &Settings,
        runtime: &Runtime,
    ) -> Result<OpenLog, String> {
        self.forget_unfinished().map_err(|error| self.cannot_remove(&error))?;
        let lsn = self.save_snapshot(settings, runtime, &SaveProgress::default())?;
        let log = self.begin(settings, runtime, lsn, Begin::Snapshot)?;
        runtime.begin_stream_at(Lsn(log.writer.lsn()));
        runtime.reset_counters();
        Ok(log)
    }

    /// Makes the data of `runtime`, which has none, from what is on disk, and opens the log. The
    /// stream of `runtime` goes on where the log ends.
    ///
    /// # Errors
    /// A sentence that says why the server cannot start, or that `loading` was cancelled.
    pub fn recover(
        self,
        settings: &Settings,
        runtime: &Runtime,
        loading: &Loading,
    ) -> Result<OpenLog, String> {
        self.forget_unfinished().map_err(|error| self.cannot_remove(&error))?;
        let snapshot = self.load_snapshot(settings, runtime, loading)?;
        let begun = sys::clock::monotonic();
        let end = self.replay(snapshot, runtime, loading)?;
        if end.torn_bytes > 0 {
            tracing::warn!(
                bytes = end.torn_bytes,
                segment = end.segment.as_deref().unwrap_or_default(),
                offset = end.offset,
                "The append-only file ends in what was never durable, which is cut"
            );
        }
        let took = (sys::clock::monotonic() - begun).as_secs_f64();
        let start = snapshot.unwrap_or(Lsn(0));
        if end.lsn > start.0 {
            tracing::info!("DB loaded from append only file: {took:.3} seconds");
        }
        let is_used = end.segment.is_some() && end.lsn >= start.0;
        if end.segment.is_some() && !is_used {
            let (end, snapshot) = (end.lsn, start.0);
            tracing::warn!(
                end,
                snapshot,
                "The append-only file ends before the LSN of its snapshot, and begins anew there: \
                 earlier moments cannot be restored any more"
            );
        }
        let log = match (is_used, snapshot) {
            (true, _) => {
                let options = writer_options(settings, runtime)?;
                let writer = Writer::resume(Arc::clone(&self.storage), &end, options);
                self.opened(writer, start)?
            }
            (false, Some(lsn)) => self.begin(settings, runtime, lsn, Begin::Snapshot)?,
            (false, None) => self.begin(settings, runtime, Lsn(0), Begin::Nothing)?,
        };
        runtime.begin_stream_at(Lsn(log.writer.lsn()));
        runtime.reset_counters();
        Ok(log)
    }

    /// Loads the snapshot that the log goes on from, if there is one, and returns the LSN that the
    /// data stand for then. Where there is no log either, a dataset that was kept without one
    /// becomes that snapshot.
    fn load_snapshot(
        &self,
        settings: &Settings,
        runtime: &Runtime,
        loading: &Loading,
    ) -> Result<Option<Lsn>, String> {
        let path = self.snapshot_path();
        if let Some(loaded) = load_file(runtime, &path, ExpiredKeys::Made, loading)? {
            let lsn = loaded.lsn.ok_or_else(|| {
                format!("'{}' does not say where the log goes on from it", path.display())
            })?;
            return Ok(Some(lsn));
        }
        let log = Reader::open(Arc::clone(&self.storage)).map_err(|error| error.to_string())?;
        if log.begins_at().is_some() {
            return Ok(None);
        }
        let dataset = dataset_path(settings);
        if load_file(runtime, &dataset, ExpiredKeys::LeftOut, loading)?.is_none() {
            return Ok(None);
        }
        self.save_snapshot(settings, runtime, &SaveProgress::default()).map(Some)
    }

    fn snapshot_path(&self) -> PathBuf {
        self.path.join(SNAPSHOT_NAME)
    }

    /// Writes the snapshot that the log goes on from; returns the LSN of its moment.
    ///
    /// # Errors
    /// A sentence that says why not; what was there before is.
    pub(super) fn save_snapshot(
        &self,
        settings: &Settings,
        runtime: &Runtime,
        progress: &SaveProgress,
    ) -> Result<Lsn, String> {
        let path = self.snapshot_path();
        let saved = runtime.save(&path, &save_options(settings), progress);
        let saved = saved.map_err(|error| format!("Can't write '{}': {error}", path.display()))?;
        Ok(saved.lsn)
    }

    /// Removes the log that is there and then its snapshot, so that what a power cut leaves is a
    /// log that can be read, or none.
    pub(super) fn clear(&self) -> Result<(), String> {
        let removed = self.forget_unfinished().and_then(|()| {
            wal::remove_log(&*self.storage)?;
            for lsn in earlier_snapshots(&*self.storage)? {
                self.storage.remove(&snapshot_name(lsn))?;
            }
            // Groups have read what is gone.
            for name in [FILE_NAME, SNAPSHOT_NAME] {
                match self.storage.remove(name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            self.storage.sync_directory()
        });
        removed.map_err(|error| self.cannot_remove(&error))
    }

    /// Removes snapshots that a process has begun which was killed: the folder is nobody else's.
    fn forget_unfinished(&self) -> io::Result<()> {
        let names = self.storage.list()?.into_iter();
        names
            .filter(|name| runtime::is_temporary(name))
            .try_for_each(|name| self.storage.remove(&name))
    }

    fn cannot_remove(&self, error: &io::Error) -> String {
        format!("Can't remove files in '{}': {}", self.path.display(), base_text(error))
    }

    /// Begins an empty log at `lsn`, in place of any that is there.
    pub(super) fn begin(
        self,
        settings: &Settings,
        runtime: &Runtime,
        lsn: Lsn,
        begin: Begin,
    ) -> Result<OpenLog, String> {
        let options = writer_options(settings, runtime)?;
        let writer = Writer::begin(Arc::clone(&self.storage), lsn.0, begin, options);
        self.opened(writer, lsn)
    }

    fn opened(
        self,
        writer: Result<Writer, wal::WriteError>,
        based_on: Lsn,
    ) -> Result<OpenLog, String> {
        let writer = writer.map_err(|error| {
            let (wal::WriteError::Full(error) | wal::WriteError::Failed(error)) = error;
            format!(
                "Can't write the append-only file in '{}': {}",
                self.path.display(),
                base_text(&error)
            )
        })?;
        let groups = self.load_groups(writer.lsn())?;
        let Folder { path, storage, lock } = self;
        Ok(OpenLog { path, storage, lock, writer, based_on, groups })
    }

    /// Returns the groups that read the log, which ends at `end`.
    fn load_groups(&self, end: u64) -> Result<Groups, String> {
        let mut groups = Groups::load(&*self.storage)
            .map_err(|error| format!("In '{}': {error}", self.path.display()))?;
        for (name, lsn) in &mut groups.lsns {
            if *lsn > end {
                // Under `appendfsync no` it has read what a power cut has taken back.
                let name = name.escape_ascii();
                tracing::warn!(%name, lsn, end, "A group of FEED has read behind the log's end");
                *lsn = end;
            }
        }
        Ok(groups)
    }

    /// Applies all records of the log behind `snapshot`; returns where the log ends.
    fn replay(
        &self,
        snapshot: Option<Lsn>,
        runtime: &Runtime,
        loading: &Loading,
    ) -> Result<LogEnd, String> {
        let failed = |error: &dyn fmt::Display| {
            format!(
                "The append-only file in '{}' cannot be read: {error}. 'forebay check' says more",
                self.path.display()
            )
        };
        // What comes before is history, which a start does not need.
        let from = snapshot.map_or(0, |lsn| lsn.0);
        let reader = Reader::open_from(Arc::clone(&self.storage), from);
        let reader = reader.map_err(|error| failed(&error))?;
        loading.expect(reader.file_bytes().map_err(|error| failed(&error))?);
        // The next frame is read and checked while the one before is applied.
        let (sender, frames) = sync_channel(FRAMES_AHEAD);
        let reader = thread::scope(|scope| {
            let read = || {
                // Without a stack for signals a crash here tells less.
                let _stack = AlternateStack::for_this_thread();
                self.read_frames(reader, snapshot, sender, &failed)
            };
            let reading = thread::Builder::new().name("log-reader".to_owned());
            let reading = reading.spawn_scoped(scope, read);
            let reading = reading.map_err(|error| failed(&error))?;
            let mut applier = Applier::new();
            let applied = frames.into_iter().try_for_each(|frame: Frame| {
                apply(&frame.payload, snapshot, runtime, &mut applier)
                    .map_err(|reason| failed(&reason))?;
                match loading.note(frame.read_bytes).is_break() {
                    true => Err(failed(&"it was ended")),
                    false => Ok(()),
                }
            });
            let read = reading.join().unwrap_or_else(|_| Err(failed(&"its reader has panicked")));
            applied.and(read)
        })?;
        loading.end_file(reader.read_bytes());
        Ok(reader.end())
    }

    /// Reads the log to its end, or until nobody takes what is read.
    fn read_frames(
        &self,
        mut reader: Reader,
        snapshot: Option<Lsn>,
        frames: SyncSender<Frame>,
        failed: &dyn Fn(&dyn fmt::Display) -> String,
    ) -> Result<Reader, String> {
        let mut is_first = true;
        loop {
            let mut payload = Vec::new();
            let frame = reader.next(&mut payload).map_err(|error| failed(&error))?;
            if std::mem::take(&mut is_first) {
                self.check_begin(&reader, snapshot)?;
            }
            let read_bytes = reader.read_bytes();
            if frame.is_none() || frames.send(Frame { payload, read_bytes }).is_err() {
                return Ok(reader);
            }
        }
    }

    /// Refuses a log that begins behind what the data stand for: something would be missing.
    fn check_begin(&self, reader: &Reader, snapshot: Option<Lsn>) -> Result<(), String> {
        let Some(first) = reader.segments().first() else { return Ok(()) };
        let Some(snapshot) = snapshot else {
            return match first.begins {
                true => Ok(()),
                false => Err(format!(
                    "The append-only file in '{}' goes on from a snapshot, '{SNAPSHOT_NAME}', \
                     which is not there",
                    self.path.display()
                )),
            };
        };
        if first.lsn <= snapshot.0 {
            return Ok(());
        }
        Err(format!(
            "The append-only file in '{}' begins at LSN {}, but the data stand for LSN {}: what \
             happened between is missing",
            self.path.display(),
            first.lsn,
            snapshot.0
        ))
    }
}

/// Applies the records of a frame that are behind `snapshot`.
fn apply(
    payload: &[u8],
    snapshot: Option<Lsn>,
    runtime: &Runtime,
    applier: &mut Applier,
) -> Result<(), String> {
    for record in effects::records(payload) {
        let record = record.map_err(|error| error.to_string())?;
        let lsn = record.header().lsn;
        if snapshot.is_none_or(|snapshot| lsn > snapshot) {
            let record = record.read().map_err(|error| error.to_string())?;
            let applied = runtime.engine().replay(applier, &record);
            applied.map_err(|error| format!("LSN {}: {error}", lsn.0))?;
        }
    }
    Ok(())
}

fn writer_options(settings: &Settings, runtime: &Runtime) -> Result<WriterOptions, String> {
    let mut salt = [0; 4];
    runtime.fill_randomly(&mut salt).map_err(|error| format!("no randomness: {error}"))?;
    let segment_bytes = settings.persistence.log_segment_bytes;
    Ok(WriterOptions { segment_bytes, term: 0, salt: u32::from_le_bytes(salt) })
}
