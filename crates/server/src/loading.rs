//! The reading of the data at start: how far it is, what is told of it meanwhile, and its end.
//!
//! A thread of its own reads. Until it has read some, nobody is answered, so that clients of a
//! server with few data never see it; then the server answers what needs no data, and the rest with
//! LOADING, as Redis does. What the data change by, as a save, an expiry or an eviction, waits.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::UnixMs;
use effects::{BACKLOG_BYTES_MIN, WriteRefusal};
use runtime::{LoadObserver, Loaded, LogFolder, OpenLog};

use crate::config::options::Settings;
use crate::durability::{begin_with_data, found_redis_log, recover};
use crate::server_state::ServerState;

/// What is read before anybody is answered: where Redis looks for requests first.
const UNSHOWN_BYTES: u64 = 2 << 20;
/// For how long nobody is answered at most.
const UNSHOWN_TIME: Duration = Duration::from_secs(1);
/// How often the log says how far it is.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// How it stands with the reading of the data.
pub struct Loading {
    stage: Mutex<Stage>,
    changed: Condvar,
    /// The folder of the log that is read.
    folder: Mutex<Option<LogFolder>>,
    is_cancelled: AtomicBool,
    began_at: UnixMs,
    began: Instant,
    /// The bytes of all files.
    total_bytes: AtomicU64,
    /// Those of the files that were read to their ends.
    past_bytes: AtomicU64,
    /// Those that were read, the file included that is being read.
    read_bytes: AtomicU64,
    /// What the data took where a file was written, as it says.
    memory_bytes: AtomicU64,
    told: Mutex<Instant>,
}

/// How far the reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody is answered yet.
    Unshown,
    /// Whoever asks is answered.
    Shown,
    /// The data are there.
    Loaded,
    /// They could not be read.
    Failed,
}

/// What INFO says while the data are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadingReport {
    /// When it began, in seconds of the wall clock.
    pub began_s: i64,
    /// The bytes of all files.
    pub total_bytes: u64,
    /// Those that were read.
    pub read_bytes: u64,
    /// What the data took where the file was written, as it says.
    pub memory_bytes: u64,
    /// How many seconds more it takes at the speed so far.
    pub left_s: u64,
}

impl Loading {
    /// Returns a reading that begins at `now`, by the log of `folder` where there is one.
    pub fn new(folder: Option<LogFolder>, now: UnixMs) -> Loading {
        let counts = [(); 4].map(|()| AtomicU64::new(0));
        let [total_bytes, past_bytes, read_bytes, memory_bytes] = counts;
        Loading {
            stage: Mutex::new(Stage::Unshown),
            changed: Condvar::new(),
            folder: Mutex::new(folder),
            is_cancelled: AtomicBool::new(false),
            began_at: now,
            began: Instant::now(),
            total_bytes,
            past_bytes,
            read_bytes,
            memory_bytes,
            told: Mutex::new(Instant::now()),
        }
    }

    /// Returns whether data are still to be read, or could not be: nothing may be saved.
    pub fn is_on(&self) -> bool {
        *self.stage() != Stage::Loaded
    }

    /// Returns whether whoever asked for it does not want the data any more.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Ends the reading where it still goes on; returns whether the data are all there.
    pub fn cancel(&self) -> bool {
        self.is_cancelled.store(true, Ordering::Relaxed);
        !self.is_on()
    }

    /// Waits until it is over or has gone on for so long that clients are to be told of it; returns
    /// whether it is over.
    pub fn wait_until_shown(&self) -> bool {
        let stage = self.stage();
        let is_hidden = |stage: &mut Stage| *stage == Stage::Unshown;
        let waited = self.changed.wait_timeout_while(stage, UNSHOWN_TIME, is_hidden);
        let mut stage = waited.unwrap_or_else(PoisonError::into_inner).0;
        if *stage == Stage::Unshown {
            *stage = Stage::Shown;
        }
        *stage != Stage::Shown
    }

    /// Notes that files of so many bytes are to be read.
    pub fn expect(&self, bytes: u64) {
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that so much of a file was read, by one thread; returns whether to go on.
    pub fn note(&self, bytes_of_file: u64) -> ControlFlow<()> {
        let read = self.past_bytes.load(Ordering::Relaxed) + bytes_of_file;
        self.read_bytes.store(read, Ordering::Relaxed);
        if read >= UNSHOWN_BYTES {
            let mut stage = self.stage();
            if *stage == Stage::Unshown {
                *stage = Stage::Shown;
                self.changed.notify_all();
            }
        }
        self.tell(read);
        match self.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Notes that a file of so many bytes was read to its end.
    pub fn end_file(&self, bytes: u64) {
        let read = self.past_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.read_bytes.store(read, Ordering::Relaxed);
    }

    /// Returns what there is to say of it while it goes on.
    pub fn report(&self) -> Option<LoadingReport> {
        if !self.is_on() {
            return None;
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (total_bytes, read_bytes) = (count(&self.total_bytes), count(&self.read_bytes));
        // Of a file that has no length, such as a pipe, more is read than there is.
        let total_bytes = total_bytes.max(read_bytes);
        let seconds = self.began.elapsed().as_secs();
        // Source: Redis, `genRedisInfoString`, of the guess before anything was read too.
        let left_s = match read_bytes {
            0 => 1,
            read => (seconds as f64 * (total_bytes - read) as f64 / read as f64) as u64,
        };
        let memory_bytes = count(&self.memory_bytes);
        let began_s = self.began_at.0 / 1000;
        Some(LoadingReport { began_s, total_bytes, read_bytes, memory_bytes, left_s })
    }

    fn tell(&self, read: u64) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.elapsed() >= REPORT_INTERVAL {
            *told = Instant::now();
            let total = self.total_bytes.load(Ordering::Relaxed);
            tracing::info!(bytes = read, total, "Loading the dataset");
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        // Each change is one assignment.
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, stage: Stage) {
        *self.stage() = stage;
        self.changed.notify_all();
    }

    fn take_folder(&self) -> Option<LogFolder> {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl LoadObserver for &Loading {
    /// Says what Redis says of these.
    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        let number = || text.parse::<i64>().ok();
        match name {
            b"redis-ver" => tracing::info!("Loading RDB produced by version {text}"),
            b"ctime" => {
                let Some(written_s) = number() else { return };
                let age = (self.began_at.0 / 1000).saturating_sub(written_s).max(0);
                tracing::info!("RDB age {age} seconds");
            }
            b"used-mem" => {
                let Some(bytes) = number().and_then(|bytes| u64::try_from(bytes).ok()) else {
                    return;
                };
                self.memory_bytes.store(bytes, Ordering::Relaxed);
                let mebibytes = bytes as f64 / (1024.0 * 1024.0);
                tracing::info!("RDB memory usage when created {mebibytes:.2} Mb");
            }
            _ => {}
        }
    }

    fn progress(&mut self, loaded: &Loaded) -> ControlFlow<()> {
        self.note(loaded.bytes)
    }
}

impl ServerState {
    /// Reads the data: those of the log where one is kept, else of the file of the dataset where
    /// `reads_dataset`. Until it returns nobody but the caller may change anything.
    ///
    /// # Errors
    /// A line for the log that says why there are no data; none where it was cancelled.
    pub fn load(&self, reads_dataset: bool) -> Result<(), Option<String>> {
        let loaded = self.load_data(reads_dataset);
        let is_there = loaded.is_ok();
        if is_there {
            self.keyspace().admission().allow(WriteRefusal::Loading);
        }
        self.loading.end(if is_there { Stage::Loaded } else { Stage::Failed });
        self.shutdown.waker().wake();
        loaded.map_err(|reason| Some(reason).filter(|_| !self.loading.is_cancelled()))
    }

    fn load_data(&self, reads_dataset: bool) -> Result<(), String> {
        let settings = self.settings();
        let log = match self.loading.take_folder() {
            Some(folder) => Some(self.load_log(folder, &settings)?),
            None if reads_dataset => {
                self.load_dataset()?;
                None
            }
            None => None,
        };
        if settings.instance.effect_backlog_bytes >= BACKLOG_BYTES_MIN {
            self.runtime.backlog();
        }
        if let Some(log) = log {
            self.durability.begin(log, &self.runtime);
        }
        Ok(())
    }

    /// Makes the data from the log in `folder`. Where there is none as yet, that of a Redis is
    /// taken over.
    fn load_log(&self, folder: LogFolder, settings: &Settings) -> Result<OpenLog, String> {
        let found = found_redis_log(settings).map_err(|error| error.to_string())?;
        match found {
            Some(file) if folder.is_new()? => {
                self.take_over(&file)?;
                begin_with_data(folder, settings, &self.runtime)
            }
            _ => recover(folder, settings, &self.runtime, &self.loading),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_guesses_the_time_left_and_is_gone_with_the_end() {
        let loading = Loading::new(None, UnixMs(5000));
        loading.expect(1000);
        let begun = loading.report().unwrap();
        assert_eq!((begun.began_s, begun.total_bytes, begun.left_s), (5, 1000, 1));
        assert!(loading.note(400).is_continue());
        loading.end_file(400);
        assert!(loading.note(800).is_continue());
        let report = loading.report().unwrap();
        assert_eq!((report.read_bytes, report.total_bytes), (1200, 1200), "a pipe has no length");
        assert!(!loading.cancel());
        assert!(loading.note(801).is_break());
        loading.end(Stage::Loaded);
        assert_eq!(loading.report(), None);
        assert!(loading.cancel() && loading.wait_until_shown());
    }

    #[test]
    fn clients_are_told_once_much_was_read() {
        let loading = Loading::new(None, UnixMs(0));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| loading.wait_until_shown());
            assert!(loading.note(UNSHOWN_BYTES - 1).is_continue());
            assert!(loading.note(UNSHOWN_BYTES).is_continue());
            assert!(!waits.join().unwrap(), "it is not over");
        });
        assert!(loading.is_on());
    }
}
