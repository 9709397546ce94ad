//! The file of the dataset, and the snapshot that the log goes on from: when they are written, by
//! whom, and how that went; the reading of the file at start.
//!
//! One thread at a time writes it: one that exists for as long as it writes, or the worker that
//! runs SAVE, or whoever ends the server. `persistence/backup.rs` is the copy that BACKUP makes.

mod backup;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use command::{
    BackupRefusal, BackupReport, Pause, Persistence, RewriteStart, SaveRefusal, SessionState,
    ShutdownError,
};
use effects::WriteRefusal;
use runtime::{
    ExpiredKeys, LoadError, LoadOptions, Loaded, Runtime, SaveError, SaveOptions, SaveProgress,
    Saved,
};
use sys::crash::AlternateStack;

use crate::config::options::Settings;
use crate::durability::{Retention, found_own_log, found_redis_log};
use crate::loading::Loading;
use crate::server_state::ServerState;

/// How long after a failure the schedule is followed again, as in Redis.
const RETRY_TIME: Duration = Duration::from_secs(5);
/// How often a server that ends writes the file anew because something has changed since.
const FINAL_SAVES_MAX: u32 = 4;
/// For how long writes wait for the last file at most.
const FINAL_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// How it stands with the file of the dataset.
#[derive(Default)]
pub struct PersistenceState {
    state: Mutex<State>,
    /// A file is not being written any more.
    ended: Condvar,
    /// The changes since the start that a file has.
    saved_changes: AtomicU64,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// The server ends: nothing but its last file is begun any more.
    is_ending: bool,
    thread: Option<JoinHandle<()>>,
    /// By the wall clock, in seconds; none before the first.
    saved_at_s: Option<i64>,
    saves: u64,
    has_failed: bool,
    /// How long the last in the background took.
    took: Option<Duration>,
    /// When the last in the background began, by the steady clock.
    tried_at: Duration,
    loaded: Loaded,
    rewrites: Rewrites,
    backup: BackupReport,
    /// Its folder.
    backup_path: PathBuf,
}

struct Running {
    began: Duration,
    is_in_background: bool,
    /// A thread of its own is still to begin it.
    is_wanted: bool,
    target: Target,
    progress: Arc<SaveProgress>,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The file of the dataset.
    Dataset,
    /// The snapshot that the log goes on from, which may forget what is before it.
    LogSnapshot,
    /// A copy in a folder of its own.
    Backup,
}

/// By whom something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// A thread of its own, soon.
    Background,
    /// The caller, who waits for it.
    Caller,
    /// The caller, who ends the server.
    Last,
}

/// How it went with snapshots for the log.
#[derive(Clone, Copy, Default)]
struct Rewrites {
    /// One is to be written once nothing else is.
    is_scheduled: bool,
    count: u64,
    /// Failures since the last success.
    failures: u64,
    took: Option<Duration>,
    /// When the last began, by the steady clock.
    tried_at: Duration,
}

/// What INFO says of the file.
pub struct PersistenceReport {
    /// Changes that no file has.
    pub changes: u64,
    /// Whether one is written in the background.
    pub is_running: bool,
    /// Whether the last in the background has failed.
    pub has_failed: bool,
    /// How many seconds the last took.
    pub took_s: Option<u64>,
    /// For how many seconds one has been written.
    pub running_s: Option<u64>,
    /// How many were written since the start.
    pub saves: u64,
    /// The keys that are written.
    pub keys: u64,
    /// What was read at start.
    pub loaded: Loaded,
    /// What there is to say of the log's snapshots.
    pub rewrite: RewriteReport,
}

/// What INFO says of the snapshots of the log.
pub struct RewriteReport {
    /// For how many seconds one has been written, if one is.
    pub running_s: Option<u64>,
    /// Whether one is to be written next.
    pub is_scheduled: bool,
    /// How many were written since the start.
    pub count: u64,
    /// How many failed since the last.
    pub failures: u64,
    /// How many seconds the last took.
    pub took_s: Option<u64>,
}

impl PersistenceState {
    /// Returns when a file was written last, in seconds of the wall clock.
    pub fn saved_at_s(&self) -> Option<i64> {
        self.state().saved_at_s
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the state of files panics")
    }

    /// Notes that a file is being written from now on.
    fn begin(&self, target: Target, writer: Writer) -> Result<Arc<SaveProgress>, SaveRefusal> {
        self.state().begin(target, writer)
    }

    /// Notes that what was written, of which nothing else is to be noted, is not any more.
    fn finish(&self) {
        self.state().running = None;
        self.ended.notify_all();
    }

    /// Waits for the last thread that wrote, where one did: what it writes has been cancelled.
    pub fn join(&self) {
        let thread = self.state().thread.take();
        if let Some(thread) = thread {
            // One that has panicked has written nothing whole.
            let _ = thread.join();
        }
    }

    /// Has what is being written of `targets` end without a file, and waits for that.
    fn cancel(&self, targets: &[Target]) {
        let mut state = self.state();
        while let Some(running) = &state.running
            && targets.contains(&running.target)
        {
            if running.is_wanted {
                if running.target == Target::Backup {
                    state.note_backup(&Err(SaveError::Cancelled));
                }
                state.running = None;
                break;
            }
            running.progress.is_cancelled.store(true, Ordering::Relaxed);
            state = self.ended.wait(state).expect("no holder of the state of files panics");
        }
    }

    /// As [`PersistenceState::cancel`], of all; nothing is begun from then on but the last file.
    fn cancel_finally(&self) {
        self.state().is_ending = true;
        self.cancel(&Target::ALL);
    }
}

impl State {
    fn begin(&mut self, target: Target, writer: Writer) -> Result<Arc<SaveProgress>, SaveRefusal> {
        if self.running.is_some() || self.is_ending && writer != Writer::Last {
            return Err(SaveRefusal::Runs);
        }
        let progress = Arc::<SaveProgress>::default();
        let is_in_background = writer == Writer::Background;
        self.running = Some(Running {
            began: sys::clock::monotonic(),
            is_in_background,
            is_wanted: is_in_background,
            target,
            progress: Arc::clone(&progress),
        });
        Ok(progress)
    }
}

impl Target {
    const ALL: [Target; 3] = [Target::Dataset, Target::LogSnapshot, Target::Backup];
}

impl ServerState {
    /// Returns what there is to say of the file of the dataset.
    pub fn persistence_report(&self) -> PersistenceReport {
        let changes = self.unsaved_changes();
        let state = self.persistence.state();
        let of = |target| {
            let running = state.running.as_ref().filter(|running| running.is_in_background);
            running.filter(|running| running.target == target)
        };
        let (running, rewrites) = (of(Target::Dataset), &state.rewrites);
        let now = sys::clock::monotonic();
        let rewrite = RewriteReport {
            running_s: of(Target::LogSnapshot).map(|running| (now - running.began).as_secs()),
            is_scheduled: rewrites.is_scheduled,
            count: rewrites.count,
            failures: rewrites.failures,
            took_s: rewrites.took.map(|took| took.as_secs()),
        };
        PersistenceReport {
            changes,
            is_running: running.is_some(),
            has_failed: state.has_failed,
            took_s: state.took.map(|took| took.as_secs()),
            running_s: running.map(|running| (now - running.began).as_secs()),
            saves: state.saves,
            keys: running.map_or(0, |running| running.progress.keys.load(Ordering::Relaxed)),
            loaded: state.loaded,
            rewrite,
        }
    }

    /// Returns how many changes there were that no file has.
    pub fn unsaved_changes(&self) -> u64 {
        let saved = self.persistence.saved_changes.load(Ordering::Relaxed);
        self.keyspace().changes_since_start().saturating_sub(saved)
    }

    /// Reads the file of the dataset, where there is one.
    ///
    /// # Errors
    /// A line for the log, where the file is there and cannot be read to its end.
    pub fn load_dataset(&self) -> Result<(), String> {
        if let Ok(Some(file)) = found_redis_log(&self.settings()) {
            tracing::warn!(
                file = %file.display(),
                "There is an append-only file of Redis, which is not read: 'forebay import' sends \
                 it to a server"
            );
        }
        if let Ok(Some(folder)) = found_own_log(&self.settings()) {
            tracing::warn!(
                folder = %folder.display(),
                "There is an append-only file, which is not read without 'appendonly yes' at the \
                 start; CONFIG SET appendonly yes would replace it by the data of this server"
            );
        }
        let path = self.dataset_path();
        let loaded = load_file(&self.runtime, &path, ExpiredKeys::LeftOut, &self.loading)?;
        if let Some(loaded) = loaded {
            self.note_loaded(loaded);
        }
        Ok(())
    }

    /// Notes that the dataset is what a file has.
    fn note_loaded(&self, loaded: Loaded) {
        let changes = self.keyspace().changes_since_start();
        self.persistence.saved_changes.store(changes, Ordering::Relaxed);
        self.persistence.state().loaded = loaded;
    }

    fn dataset_path(&self) -> PathBuf {
        dataset_path(&self.settings())
    }

    /// Begins to write the file by a thread of its own, where that is wanted or due. For the
    /// service thread.
    pub fn save_if_due(self: &Arc<ServerState>) {
        if self.loading.is_on() {
            return;
        }
        self.rewrite_if_due();
        if let Some((seconds, changes)) = self.due_rule()
            && self.save_later().is_ok()
        {
            tracing::info!("{changes} changes in {seconds} seconds. Saving...");
        }
        self.start_wanted();
    }

    /// Begins a snapshot for the log where one is scheduled, or the log has become long.
    fn rewrite_if_due(&self) {
        let (is_scheduled, is_busy) = {
            let state = self.persistence.state();
            (state.rewrites.is_scheduled, state.running.is_some())
        };
        let growth = self.due_growth();
        if is_busy || !is_scheduled && growth.is_none() || self.rewrite_log().is_err() {
            return;
        }
        if let Some(percent) = growth.filter(|_| !is_scheduled) {
            tracing::info!("Starting automatic rewriting of AOF on {percent}% growth");
        }
    }

    /// Returns by how many percent of its snapshot the log has grown, where that is too much and a
    /// snapshot may begin.
    pub fn due_growth(&self) -> Option<u64> {
        let settings = self.settings();
        let rules = &settings.persistence;
        let log = self.durability.report();
        let bytes = log.bytes_behind_snapshot;
        if !log.is_on || rules.rewrite_percentage == 0 || bytes < rules.rewrite_bytes_min {
            return None;
        }
        let now = sys::clock::monotonic();
        let state = self.persistence.state();
        let rewrites = &state.rewrites;
        let may_try = rewrites.failures == 0 || now.saturating_sub(rewrites.tried_at) > RETRY_TIME;
        let percent = bytes.saturating_mul(100) / log.snapshot_bytes.max(1);
        let is_due = may_try && state.running.is_none() && percent >= rules.rewrite_percentage;
        is_due.then_some(percent)
    }

    /// Returns whether the schedule may come due without anything else happening.
    pub fn awaits_schedule(&self) -> bool {
        let is_open = {
            let state = self.persistence.state();
            let is_wanted = state.running.as_ref().is_some_and(|running| running.is_wanted);
            // After a failure it is tried again by the clock; of growth the log thread tells.
            is_wanted || state.rewrites.is_scheduled || state.rewrites.failures > 0
        };
        is_open || !self.settings().persistence.schedule.is_empty() && self.unsaved_changes() > 0
    }

    /// Returns the seconds and changes of the schedule that have passed, if any have.
    fn due_rule(&self) -> Option<(u64, u64)> {
        let settings = self.settings();
        if settings.persistence.schedule.is_empty() {
            return None;
        }
        let changes = self.unsaved_changes();
        let now = sys::clock::monotonic();
        let state = self.persistence.state();
        let may_try = !state.has_failed || now.saturating_sub(state.tried_at) > RETRY_TIME;
        if changes == 0 || state.running.is_some() || !may_try {
            return None;
        }
        let saved_at = state.saved_at_s.unwrap_or(self.identity.started.0 / 1000);
        let passed = (self.runtime.clock().wall().0 / 1000).saturating_sub(saved_at);
        let passed = u64::try_from(passed).unwrap_or(0);
        let rules = rules_of(&settings.persistence.schedule);
        rules.into_iter().find(|(seconds, wanted)| changes >= *wanted && passed > *seconds)
    }

    fn start_wanted(self: &Arc<ServerState>) {
        let mut state = self.persistence.state();
        let Some(running) = state.running.as_mut().filter(|running| running.is_wanted) else {
            return;
        };
        running.is_wanted = false;
        let (progress, target) = (Arc::clone(&running.progress), running.target);
        match target {
            Target::Dataset => state.tried_at = sys::clock::monotonic(),
            Target::LogSnapshot => state.rewrites.tried_at = sys::clock::monotonic(),
            Target::Backup => {}
        }
        let ended = state.thread.take();
        let shared = Arc::clone(self);
        let run = move || {
            // Without a stack for signals a crash here tells less.
            let _stack = AlternateStack::for_this_thread();
            if let Some(ended) = ended {
                // It has ended, or does now.
                let _ = ended.join();
            }
            match target {
                Target::Dataset => shared.save_in_background(&progress),
                Target::LogSnapshot => shared.rewrite_in_background(&progress),
                Target::Backup => shared.back_up_in_background(&progress),
            }
        };
        match thread::Builder::new().name("snapshot".to_owned()).spawn(run) {
            Ok(thread) => state.thread = Some(thread),
            Err(error) => {
                drop(state);
                tracing::warn!(%error, "Can't save in background: no thread");
                self.end_save(&Err(SaveError::System { step: "no thread", error }));
            }
        }
    }

    fn save_in_background(&self, progress: &SaveProgress) {
        let pid = std::process::id();
        tracing::info!("Background saving started by pid {pid}");
        let saved = self.write_dataset(true, progress);
        match &saved {
            Ok(saved) => {
                let bytes = saved.bytes;
                tracing::info!("DB saved on disk");
                tracing::info!(bytes, "Background saving terminated with success");
            }
            Err(SaveError::Cancelled) => tracing::warn!("Background saving ended on request"),
            Err(error) => tracing::warn!("Background saving error: {error}"),
        }
        self.end_save(&saved);
    }

    fn rewrite_in_background(&self, progress: &SaveProgress) {
        tracing::info!(
            "Background append only file rewriting started by pid {}",
            std::process::id()
        );
        let retention = Retention::of(&self.settings());
        if let Err(error) = self.durability.keep_snapshot(&retention) {
            tracing::warn!(%error, "The snapshot before is not kept");
        }
        let saved = match self.durability.snapshot_path() {
            Some(path) => self.save_log_snapshot(&path, progress),
            // It was turned off meanwhile.
            None => Err(SaveError::Cancelled),
        };
        match &saved {
            Ok(saved) => {
                let now = self.runtime.clock().wall();
                let noted =
                    self.durability.note_snapshot(saved.lsn, saved.bytes, &self.settings(), now);
                if let Err(error) = noted {
                    tracing::warn!(%error, "A part of the log that is not needed stays");
                }
                let bytes = saved.bytes;
                tracing::info!(bytes, "Background AOF rewrite finished successfully");
            }
            Err(SaveError::Cancelled) => tracing::warn!("Background AOF rewrite ended on request"),
            Err(error) => tracing::warn!("Background AOF rewrite error: {error}"),
        }
        self.end_save(&saved);
    }

    /// Writes the snapshot that the log goes on from to `path`. It takes its place only once the
    /// log is durable as far: a log that a power cut leaves behind its snapshot is begun anew,
    /// without its history.
    fn save_log_snapshot(&self, path: &Path, progress: &SaveProgress) -> Result<Saved, SaveError> {
        let options = SaveOptions { pauses: true, ..save_options(&self.settings()) };
        self.runtime.save_after(path, &options, progress, |saved| {
            let is_cancelled = || progress.is_cancelled.load(Ordering::Relaxed);
            match self.durability.wait_until_durable(saved.lsn, is_cancelled) {
                true => Ok(()),
                false => Err(SaveError::Cancelled),
            }
        })
    }

    fn write_dataset(&self, pauses: bool, progress: &SaveProgress) -> Result<Saved, SaveError> {
        let options = SaveOptions { pauses, ..save_options(&self.settings()) };
        self.runtime.save(&self.dataset_path(), &options, progress)
    }

    /// Notes how the writing of the file that runs has ended.
    fn end_save(&self, saved: &Result<Saved, SaveError>) {
        let now = sys::clock::monotonic();
        {
            let mut state = self.persistence.state();
            let running = state.running.take().expect("who ends has begun");
            let took = now - running.began;
            match saved {
                saved if running.target == Target::LogSnapshot => {
                    state.rewrites.note(saved.as_ref(), took);
                }
                saved if running.target == Target::Backup => state.note_backup(saved),
                Ok(saved) => {
                    state.saved_at_s = Some(self.runtime.clock().wall().0 / 1000);
                    state.saves += 1;
                    state.has_failed = false;
                    self.persistence.saved_changes.store(saved.changes, Ordering::Relaxed);
                }
                Err(SaveError::Cancelled) => {}
                Err(_) => state.has_failed |= running.is_in_background,
            }
            if running.is_in_background && running.target == Target::Dataset {
                state.took = Some(took);
            }
        }
        self.persistence.ended.notify_all();
        self.admit_writes_as_saved();
    }

    /// Takes writes or none, as the last file and the options say.
    pub fn admit_writes_as_saved(&self) {
        let settings = self.settings();
        let has_failed = self.persistence.state().has_failed;
        let rules = &settings.persistence;
        let admission = self.keyspace().admission();
        match has_failed && rules.stops_writes && !rules.schedule.is_empty() {
            true => admission.refuse(WriteRefusal::Unsaved),
            false => admission.allow(WriteRefusal::Unsaved),
        }
    }

    /// Writes the file a last time, while writes wait; ends what another thread writes.
    ///
    /// # Errors
    /// When it is not written.
    pub fn save_finally(&self) -> Result<(), ShutdownError> {
        self.persistence.cancel_finally();
        tracing::warn!("Saving the final RDB snapshot before exiting.");
        self.pause.begin(Pause::Writes, FINAL_PAUSE, sys::clock::monotonic());
        for _ in 0..FINAL_SAVES_MAX {
            if self.save_by(Writer::Last).is_err() {
                self.persistence.state().is_ending = false;
                self.pause.end();
                self.post_all(|| crate::mailbox::Message::Resume);
                return Err(ShutdownError::Unsaved);
            }
            // A write that began before the pause may have ended after the cut.
            if self.unsaved_changes() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Has what is being written end without a file, where a server ends without one.
    pub fn cancel_save(&self) {
        self.persistence.cancel_finally();
    }

    /// Begins to keep a log, as [`Durability::turn_on`](crate::durability::Durability::turn_on).
    ///
    /// # Errors
    /// A sentence that says why not: a file is being written, for one.
    pub fn turn_log_on(&self, settings: &Settings) -> Result<(), String> {
        self.loaded()?;
        // One snapshot at a time: before anything in the folder of the log is touched.
        let begun = self.persistence.begin(Target::LogSnapshot, Writer::Caller);
        let progress = begun.map_err(|_| {
            "a background save is in progress: try again when it has \
             ended"
                .to_owned()
        })?;
        let begun = self.durability.turn_on(settings, &self.runtime, &progress);
        self.persistence.finish();
        begun
    }

    /// Ends the log, as [`Durability::turn_off`](crate::durability::Durability::turn_off), and what
    /// is being written for it.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn turn_log_off(&self, settings: &Settings) -> Result<(), String> {
        self.loaded()?;
        self.durability.turn_off(settings, &self.runtime)?;
        self.persistence.state().rewrites.is_scheduled = false;
        self.persistence.cancel(&[Target::LogSnapshot]);
        Ok(())
    }

    /// Refuses what is not to happen while the data are read.
    fn loaded(&self) -> Result<(), String> {
        match self.loading.is_on() {
            true => Err("the dataset is being loaded: try again when that has ended".to_owned()),
            false => Ok(()),
        }
    }

    fn save_by(&self, writer: Writer) -> Result<(), SaveRefusal> {
        let progress = self.persistence.begin(Target::Dataset, writer)?;
        let saved = self.write_dataset(false, &progress);
        match &saved {
            Ok(_) => tracing::info!("DB saved on disk"),
            Err(error) => tracing::warn!("Error saving the DB: {error}"),
        }
        self.end_save(&saved);
        saved.map(drop).map_err(|_| SaveRefusal::Failed)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Persistence for ServerState {
    fn save(&self) -> Result<(), SaveRefusal> {
        self.save_by(Writer::Caller)
    }

    fn save_later(&self) -> Result<(), SaveRefusal> {
        self.persistence.begin(Target::Dataset, Writer::Background)?;
        self.service_waker.wake();
        Ok(())
    }

    fn rewrite_log(&self) -> Result<RewriteStart, SaveRefusal> {
        if !self.durability.is_on() {
            return Err(SaveRefusal::NoLog);
        }
        let mut state = self.persistence.state();
        let started = match state.begin(Target::LogSnapshot, Writer::Background) {
            Ok(_) => RewriteStart::Started,
            Err(refusal) => match &state.running {
                Some(Running { target: Target::Dataset | Target::Backup, .. }) => {
                    RewriteStart::Scheduled
                }
                _ => return Err(refusal),
            },
        };
        state.rewrites.is_scheduled = started == RewriteStart::Scheduled;
        drop(state);
        self.service_waker.wake();
        Ok(started)
    }

    fn back_up(&self, session: &SessionState, directory: &[u8]) -> Result<(), BackupRefusal> {
        self.begin_backup(session, directory)
    }

    fn backup_report(&self) -> BackupReport {
        self.persistence.state().backup.clone()
    }

    fn reload(&self, saves: bool) -> Result<(), SaveRefusal> {
        if self.loading.is_on() {
            return Err(SaveRefusal::Runs);
        }
        self.persistence.cancel(&Target::ALL);
        self.persistence.begin(Target::Dataset, Writer::Caller)?;
        let path = self.dataset_path();
        let options = save_options(&self.settings());
        let reloaded = self.runtime.reload(&path, saves.then_some(&options));
        self.persistence.finish();
        match reloaded {
            Ok(loaded) => {
                tracing::warn!("DB reloaded by DEBUG RELOAD");
                self.note_loaded(loaded);
                Ok(())
            }
            Err(error) => {
                tracing::warn!("Error trying to load the RDB dump: {error}");
                Err(SaveRefusal::Failed)
            }
        }
    }
}

impl Rewrites {
    /// Notes how the writing of a snapshot ended, which took `took`.
    fn note(&mut self, saved: Result<&Saved, &SaveError>, took: Duration) {
        match saved {
            Ok(_) => {
                self.count += 1;
                self.failures = 0;
            }
            Err(SaveError::Cancelled) => {}
            Err(_) => self.failures += 1,
        }
        self.took = Some(took);
    }
}

/// Returns where the file of the dataset is.
pub fn dataset_path(settings: &Settings) -> PathBuf {
    settings.daemon.directory.join(&settings.persistence.file_name)
}

/// Returns how a file is written under `settings` while somebody waits for it.
pub fn save_options(settings: &Settings) -> SaveOptions {
    SaveOptions {
        redis_version: settings.process.compatible_version.clone(),
        compresses: settings.persistence.compresses,
        has_checksum: settings.persistence.has_checksum,
        pauses: false,
    }
}

/// Makes the keys of the file at `path` in `runtime`, which has none, as a part of `loading`;
/// `None` where there is no such file.
///
/// # Errors
/// A line for the log, where the file is there and cannot be read to its end.
pub fn load_file(
    runtime: &Runtime,
    path: &Path,
    expired: ExpiredKeys,
    loading: &Loading,
) -> Result<Option<Loaded>, String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened,
    };
    let fatal = |reason: &dyn std::fmt::Display| {
        format!("Fatal error loading the DB from {}: {reason}. Exiting.", path.display())
    };
    let file = file.map_err(|error| fatal(&error))?;
    let file_bytes = file.metadata().map_or(0, |metadata| metadata.len());
    loading.expect(file_bytes);
    let began = sys::clock::monotonic();
    let mut observer = loading;
    let loaded =
        runtime.load(file, &LoadOptions { expired, helpers: 1, file_bytes }, &mut observer);
    let loaded = loaded.map_err(|error: LoadError| fatal(&error))?;
    loading.end_file(loaded.bytes);
    let (keys, expired) = (loaded.keys, loaded.expired);
    tracing::info!("Done loading RDB, keys loaded: {keys}, keys expired: {expired}.");
    let took = (sys::clock::monotonic() - began).as_secs_f64();
    tracing::info!("DB loaded from disk: {took:.3} seconds");
    Ok(Some(loaded))
}

/// Returns the pairs of `schedule`.
fn rules_of(schedule: &str) -> Vec<(u64, u64)> {
    let numbers: Vec<u64> = schedule.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_pairs() {
        assert_eq!(rules_of("3600 1 300 100"), [(3600, 1), (300, 100)]);
        assert_eq!(rules_of(""), []);
    }
}
