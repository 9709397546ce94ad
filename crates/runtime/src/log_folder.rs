//! The folder of a log: the log, the snapshot that it goes on from, and the claim to both. What is
//! in it is the same whether a server or a program with an embedded instance has written it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::{fmt, fs, io, thread};

use base::Lsn;
use engine::Applier;
use sys::crash::AlternateStack;
use sys::error_text::base_text;
use wal::{Begin, Directory, LogEnd, Reader, Storage, WriteError, Writer, WriterOptions};

use crate::feed_groups::Groups;
use crate::runtime::Runtime;
use crate::snapshot_file::{SaveOptions, SaveProgress, is_temporary};

/// The file in the folder of the log that has the data which the log goes on from.
pub const SNAPSHOT_NAME: &str = "base.rdb";

/// The folder of the log within that of the data, where no option says otherwise.
pub const LOG_FOLDER: &str = "appendonlydir";

/// Records that a log has not taken, in bytes, behind which no write is admitted. They are in
/// memory, and replies are held long before: this is for writers whose replies nobody holds.
pub const UNTAKEN_BYTES_MAX: u64 = 256 << 20;

/// The append-only file of Redis before 7, in the folder of the data.
const REDIS_FILE: &str = "appendonly.aof";
/// What the names of earlier snapshots begin and end with, around the LSN of each.
const EARLIER_PREFIX: &str = "base-";
const EARLIER_SUFFIX: &str = ".rdb";
/// Digits of an LSN in a name, as segments have them.
const DIGITS: usize = 20;

/// How many frames are read ahead, beside the one that is being read.
const FRAMES_AHEAD: usize = 1;

/// When a log is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Each second.
    EverySecond,
    /// Before the reply to a write leaves.
    Always,
    /// When the system sees fit, but at the end and where it is asked for.
    Never,
}

impl SyncPolicy {
    /// Returns the value of `appendfsync` that means it.
    pub fn name(self) -> &'static str {
        match self {
            SyncPolicy::Always => "always",
            SyncPolicy::EverySecond => "everysec",
            SyncPolicy::Never => "no",
        }
    }
}

/// The folder of a log, claimed for as long as it lives.
pub struct LogFolder {
    path: PathBuf,
    storage: Arc<dyn Storage>,
    lock: wal::Lock,
}

/// A log to be written, and the claim to its folder.
pub struct OpenLog {
    /// The folder.
    pub path: PathBuf,
    /// The files in it.
    pub storage: Arc<dyn Storage>,
    /// The claim.
    pub lock: wal::Lock,
    /// The end of the log.
    pub writer: Writer,
    /// The LSN of the snapshot that it goes on from.
    pub based_on: Lsn,
    /// Those who read it by name, as the folder has them.
    pub groups: Groups,
}

impl fmt::Debug for OpenLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OpenLog({})", self.writer.lsn())
    }
}

/// Who follows the reading of a log.
pub trait ReplayObserver {
    /// The log has files of so many bytes.
    fn begin(&mut self, _file_bytes: u64) {}

    /// So many bytes of them were read. Where it breaks, the reading ends with an error.
    fn note(&mut self, _read_bytes: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// The log was read to its end, which is behind so many bytes.
    fn end(&mut self, _read_bytes: u64) {}
}

/// Nobody does.
impl ReplayObserver for () {}

/// Returns the name of the earlier snapshot that stands for `lsn`.
pub fn snapshot_name(lsn: u64) -> String {
    format!("{EARLIER_PREFIX}{lsn:0DIGITS$}{EARLIER_SUFFIX}")
}

/// Returns the LSNs that the earlier snapshots of `storage` stand for.
///
/// # Errors
/// When the folder cannot be read.
pub fn earlier_snapshots(storage: &dyn Storage) -> io::Result<BTreeSet<u64>> {
    Ok(storage.list()?.iter().filter_map(|name| lsn_of_name(name)).collect())
}

fn lsn_of_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(EARLIER_PREFIX)?.strip_suffix(EARLIER_SUFFIX)?;
    let is_number = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns a log of Redis, if there is any: its manifest in `folder`, where a log of Forebay is
/// too, or the one file of Redis before 7 in `directory`.
///
/// # Errors
/// When the folder cannot be read.
pub fn redis_log(directory: &Path, folder: &Path) -> io::Result<Option<PathBuf>> {
    let file = directory.join(REDIS_FILE);
    Ok(manifest_in(folder)?.or_else(|| file.exists().then_some(file)))
}

/// Returns the manifest of Redis's append-only files in `folder`, if there is one.
///
/// # Errors
/// When the folder cannot be read.
pub fn manifest_in(folder: &Path) -> io::Result<Option<PathBuf>> {
    find_in(folder, |path| path.extension().is_some_and(|extension| extension == "manifest"))
}

/// Returns whether there is a log, or the snapshot of one, in `folder`, without making anything.
///
/// # Errors
/// When the folder cannot be read.
pub fn has_log_in(folder: &Path) -> io::Result<bool> {
    let is_of_log = |name: &str| name == SNAPSHOT_NAME || wal::lsn_of(name).is_some();
    let is_wanted =
        |path: &Path| path.file_name().and_then(|it| it.to_str()).is_some_and(is_of_log);
    Ok(find_in(folder, is_wanted)?.is_some())
}

fn find_in(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if is_wanted(&path) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// A frame that was read.
struct Frame {
    payload: Vec<u8>,
    /// How much of the log was read with it.
    read_bytes: u64,
}

impl LogFolder {
    /// Opens the folder at `path`, which is made where it is not there, and claims it.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn open(path: PathBuf) -> Result<LogFolder, String> {
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
                "Another server uses the append-only directory '{}': one directory is for one \
                 server",
                path.display()
            ),
            _ => failed("lock", error),
        })?;
        Ok(LogFolder::new(path, Arc::new(directory), lock))
    }

    /// Returns the folder whose files `storage` has and which `lock` claims. Snapshots are at
    /// `path`.
    pub fn new(path: PathBuf, storage: Arc<dyn Storage>, lock: wal::Lock) -> LogFolder {
        LogFolder { path, storage, lock }
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the files in it.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Returns the snapshot that the log goes on from, which may not be there.
    pub fn snapshot_path(&self) -> PathBuf {
        self.path.join(SNAPSHOT_NAME)
    }

    /// Returns whether there is a log.
    ///
    /// # Errors
    /// A sentence that says why nobody knows.
    pub fn has_log(&self) -> Result<bool, String> {
        let log = Reader::open(Arc::clone(&self.storage)).map_err(|error| error.to_string())?;
        Ok(log.begins_at().is_some())
    }

    /// Returns whether there is neither a log nor a snapshot.
    ///
    /// # Errors
    /// A sentence that says why nobody knows.
    pub fn is_new(&self) -> Result<bool, String> {
        Ok(!self.has_log()? && !self.snapshot_path().exists())
    }

    /// Writes the snapshot that the log goes on from; returns the LSN of its moment.
    ///
    /// # Errors
    /// A sentence that says why not; what was there before is.
    pub fn save_snapshot(
        &self,
        options: &SaveOptions,
        runtime: &Runtime,
        progress: &SaveProgress,
    ) -> Result<Lsn, String> {
        let path = self.snapshot_path();
        let saved = runtime.save(&path, options, progress);
        let saved = saved.map_err(|error| format!("Can't write '{}': {error}", path.display()))?;
        Ok(saved.lsn)
    }

    /// Removes snapshots that a process has begun which was killed: the folder is nobody else's.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn forget_unfinished(&self) -> Result<(), String> {
        let names = self.storage.list().map_err(|error| self.cannot_remove(&error))?;
        names
            .iter()
            .filter(|name| is_temporary(name))
            .try_for_each(|name| self.storage.remove(name))
            .map_err(|error| self.cannot_remove(&error))
    }

    /// Returns the sentence that `error` was in the way of removing files.
    pub fn cannot_remove(&self, error: &io::Error) -> String {
        let (path, error) = (self.path.display(), base_text(error));
        format!("Can't remove files in '{path}': {error}")
    }

    /// Begins an empty log at `lsn`, in place of any that is there.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn begin(
        self,
        segment_bytes: u64,
        runtime: &Runtime,
        lsn: Lsn,
        begin: Begin,
    ) -> Result<OpenLog, String> {
        let options = writer_options(segment_bytes, runtime)?;
        let writer = Writer::begin(Arc::clone(&self.storage), lsn.0, begin, options);
        self.opened(writer, lsn)
    }

    /// Opens the log that was read to `end`, to be gone on with, or begins one where there is none
    /// or it ends before the LSN of `snapshot`. The stream of `runtime` goes on there.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn resume(
        self,
        segment_bytes: u64,
        runtime: &Runtime,
        snapshot: Option<Lsn>,
        end: &LogEnd,
    ) -> Result<OpenLog, String> {
        let start = snapshot.unwrap_or(Lsn(0));
        let log = if end.segment.is_some() && end.lsn >= start.0 {
            let options = writer_options(segment_bytes, runtime)?;
            let writer = Writer::resume(Arc::clone(&self.storage), end, options);
            self.opened(writer, start)?
        } else {
            let begin = snapshot.map_or(Begin::Nothing, |_| Begin::Snapshot);
            self.begin(segment_bytes, runtime, start, begin)?
        };
        runtime.begin_stream_at(Lsn(log.writer.lsn()));
        runtime.reset_counters();
        Ok(log)
    }

    fn opened(self, writer: Result<Writer, WriteError>, based_on: Lsn) -> Result<OpenLog, String> {
        let writer = writer.map_err(|error| {
            let (WriteError::Full(error) | WriteError::Failed(error)) = error;
            format!(
                "Can't write the append-only file in '{}': {}",
                self.path.display(),
                base_text(&error)
            )
        })?;
        let groups = Groups::load(&*self.storage)
            .map_err(|error| format!("In '{}': {error}", self.path.display()))?;
        let LogFolder { path, storage, lock } = self;
        Ok(OpenLog { path, storage, lock, writer, based_on, groups })
    }

    /// Applies all records of the log behind `snapshot` to `runtime`; returns where the log ends.
    ///
    /// # Errors
    /// A sentence that says why the log cannot be read.
    pub fn replay(
        &self,
        snapshot: Option<Lsn>,
        runtime: &Runtime,
        observer: &mut dyn ReplayObserver,
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
        observer.begin(reader.file_bytes().map_err(|error| failed(&error))?);
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
                match observer.note(frame.read_bytes).is_break() {
                    true => Err(failed(&"it was ended")),
                    false => Ok(()),
                }
            });
            let read = reading.join().unwrap_or_else(|_| Err(failed(&"its reader has panicked")));
            applied.and(read)
        })?;
        observer.end(reader.read_bytes());
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

fn writer_options(segment_bytes: u64, runtime: &Runtime) -> Result<WriterOptions, String> {
    let mut salt = [0; 4];
    runtime.fill_randomly(&mut salt).map_err(|error| format!("no randomness: {error}"))?;
    Ok(WriterOptions { segment_bytes, term: 0, salt: u32::from_le_bytes(salt) })
}
