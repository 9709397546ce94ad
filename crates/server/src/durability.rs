//! The log of an instance: whether it is kept, how far it has come, and who waits for it.
//!
//! *Layout*: `log_thread.rs` is the thread that writes it and makes it durable, `recovery.rs` what
//! happens with a log when a server starts, `inspection.rs` what `forebay check` says of one.
//! `history.rs` decides what is kept that no restart needs, `history_thread.rs` removes the rest,
//! `feed.rs` lets clients read the log, `restore.rs` makes the data of an earlier moment of it,
//! `moment.rs` reads times.
//!
//! Without a log nothing of this is on the way of a request: there is no consumer, and the gate for
//! replies is open. With one, a write does nothing more than without: its record is in the backlog,
//! from which the log thread takes all there is, or a worker whose clients all wait for that
//! (`worker/log_turn.rs`). Replies wait at the gate (`engine::ReleaseGate`), under `always` until
//! their records are durable, else where the thread is too far behind.

mod feed;
mod history;
mod history_thread;
pub mod inspection;
mod log_thread;
mod moment;
mod recovery;
pub mod restore;
#[cfg(test)]
mod restore_tests;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use base::{DatabaseIndex, Lsn, UnixMs};
use effects::Consumer;
use runtime::{
    Groups, OpenLog, Runtime, SNAPSHOT_NAME, SaveProgress, SyncPolicy, UNTAKEN_BYTES_MAX,
};
use wal::{Begin, Storage};

use crate::config::kind::Named;
use crate::config::options::Settings;
use crate::persistence::save_options;
use crate::server_state::ServerState;
use log_thread::Log;

pub use feed::FEED_DESCRIPTORS;
pub use history::Retention;
pub use history_thread::HistoryThread;
pub use log_thread::LogThread;
pub use recovery::{begin_with_data, found_own_log, found_redis_log, open_folder, recover};

/// Records that have not been written, in bytes, behind which replies are held unless the log is
/// made durable for each of them anyway: the clients that write are as slow as the disk then.
const UNWRITTEN_BYTES_MAX: u64 = 32 << 20;

/// Records that have not been written, in bytes, behind which a worker wakes the log thread: so
/// many that a frame of its own costs little for each, and before more could be lost with the
/// process.
const PROMPT_BYTES: u64 = 2 << 20;
/// How often it is looked for records while they come and nobody waits for them.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// How often while many come.
const BUSY_LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// How many bytes of records many are, in one look.
const BUSY_BYTES: u64 = 64 << 10;
/// How many looks there are between two wishes that the log be made durable: 100 ms.
const LOOKS_BETWEEN_SYNCS: u32 = 50;

impl Named for SyncPolicy {
    const ALL: &'static [SyncPolicy] =
        &[SyncPolicy::EverySecond, SyncPolicy::Always, SyncPolicy::Never];

    fn name(self) -> &'static str {
        SyncPolicy::name(self)
    }
}

/// What the threads of a server share of its log.
#[derive(Default)]
pub struct Durability {
    progress: Progress,
    /// What is written, held by who writes: the log thread, or a worker whose clients all wait.
    log: Mutex<Option<Box<Log>>>,
    orders: Mutex<Orders>,
    /// Where the log is, while one is kept.
    place: Mutex<Option<Place>>,
    /// An order has been carried out.
    done: Condvar,
    wakeup: Wakeup,
    history: History,
}

/// What the thread shares that removes what is kept of the log no longer, and answers who reads it.
#[derive(Default)]
struct History {
    wakeup: Wakeup,
    exits: AtomicBool,
    desk: feed::Desk,
    /// The groups that read the log, as they are in its folder.
    groups: Mutex<Groups>,
    /// Held by who removes files, and by who notes that some are needed.
    removal: Mutex<()>,
    /// Segments were removed of which the history thread may still have some open.
    has_removed: AtomicBool,
}

impl History {
    fn removal(&self) -> MutexGuard<'_, ()> {
        self.removal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the log thread is to do beside writing.
#[derive(Default)]
struct Orders {
    /// Write this log from now on.
    begin: Option<Box<RunningLog>>,
    /// Write none from now on.
    ends: bool,
    /// What came of that.
    ended: Option<Result<(), String>>,
    /// And end.
    exits: bool,
}

/// The folder of a log.
#[derive(Clone)]
struct Place {
    path: PathBuf,
    storage: Arc<dyn Storage>,
}

/// A log and where it takes records from.
struct RunningLog {
    log: OpenLog,
    consumer: Consumer,
}

/// How far the log has come, and what was counted on the way.
#[derive(Default)]
pub struct Progress {
    is_on: AtomicBool,
    has_failed: AtomicBool,
    is_full: AtomicBool,
    written: AtomicU64,
    durable: AtomicU64,
    /// A sync is wanted before its time.
    sync_wanted: AtomicBool,
    /// The LSN of the snapshot that it goes on from.
    based_on: AtomicU64,
    /// The bytes of that.
    snapshot_bytes: AtomicU64,
    syncs: AtomicU64,
    delayed_syncs: AtomicU64,
    frames: AtomicU64,
    file_bytes: AtomicU64,
}

/// What INFO says of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// It is kept.
    pub is_on: bool,
    /// The last write, or the last sync, went well.
    pub is_well: bool,
    /// The LSN behind what is written.
    pub written: u64,
    /// The LSN behind what is durable.
    pub durable: u64,
    /// How often it was made durable.
    pub syncs: u64,
    /// Syncs that took longer than the time to the next one.
    pub delayed_syncs: u64,
    /// The bytes of the snapshot that it goes on from.
    pub snapshot_bytes: u64,
    /// The bytes of records behind that.
    pub bytes_behind_snapshot: u64,
    /// Frames written.
    pub frames: u64,
    /// Bytes written, those around the payloads included.
    pub file_bytes: u64,
}

impl Durability {
    /// Has `log` written from now on, with what happens in `runtime` behind it. To be called before
    /// anything happens there; the log thread begins when it runs.
    pub fn begin(&self, log: OpenLog, runtime: &Runtime) {
        let consumer = runtime.backlog().required_consumer(UNTAKEN_BYTES_MAX);
        self.hand_over(log, consumer, runtime);
    }

    fn hand_over(&self, mut log: OpenLog, consumer: Consumer, runtime: &Runtime) {
        let lsn = consumer.position();
        let progress = &self.progress;
        for position in [&progress.written, &progress.durable] {
            position.store(lsn.0, Ordering::SeqCst);
        }
        progress.based_on.store(log.based_on.0, Ordering::SeqCst);
        let snapshot = std::fs::metadata(log.path.join(SNAPSHOT_NAME));
        progress.snapshot_bytes.store(snapshot.map_or(0, |it| it.len()), Ordering::Relaxed);
        *self.groups() = groups_within(&mut log);
        *self.place() = Some(Place { path: log.path.clone(), storage: Arc::clone(&log.storage) });
        progress.has_failed.store(false, Ordering::Relaxed);
        progress.is_full.store(false, Ordering::Relaxed);
        // Until the thread runs, and sets it as the policy asks.
        runtime.engine().gate().set(lsn);
        progress.is_on.store(true, Ordering::SeqCst);
        self.orders().begin = Some(Box::new(RunningLog { log, consumer }));
        self.wakeup.wake();
        self.history.wakeup.wake();
    }

    /// Begins to keep a log, in place of any that is there, while the server runs. Where there are
    /// data, a snapshot of them is written first: meanwhile what writes change is in memory, up to
    /// 256 MiB. The caller holds no guard.
    ///
    /// # Errors
    /// A sentence that says why not. What was in the folder of the log may be gone.
    pub fn turn_on(
        &self,
        settings: &Settings,
        runtime: &Runtime,
        progress: &SaveProgress,
    ) -> Result<(), String> {
        let folder = recovery::open_folder(settings)?;
        // It is of no use since the log was turned off, and might be taken for that of these data.
        recovery::clear(&folder)?;
        runtime.keep_changes(true);
        let (consumer, is_empty) = {
            let mut guard = runtime.keyspace().lock_all();
            let databases = 0..runtime.keyspace().database_count() as u8;
            let count = |index| guard.access().key_count(DatabaseIndex(index));
            let is_empty = databases.map(count).all(|keys| keys == 0);
            (runtime.backlog().required_consumer(UNTAKEN_BYTES_MAX), is_empty)
        };
        let saved = match is_empty {
            true => Ok(Begin::Nothing),
            false => folder
                .save_snapshot(&save_options(settings), runtime, progress)
                .map(|_| Begin::Snapshot),
        };
        let begun = saved.and_then(|begin| {
            let log = folder.begin(
                settings.persistence.log_segment_bytes,
                runtime,
                consumer.position(),
                begin,
            )?;
            Ok((log, consumer))
        });
        match begun {
            Ok((log, consumer)) => self.hand_over(log, consumer, runtime),
            Err(reason) => {
                keep_changes_for_others(settings, runtime);
                return Err(reason);
            }
        }
        Ok(())
    }

    /// Returns the file of the snapshot that the log goes on from; none where no log is kept.
    pub fn snapshot_path(&self) -> Option<PathBuf> {
        let place = self.place();
        place.as_ref().filter(|_| self.is_on()).map(|place| place.path.join(SNAPSHOT_NAME))
    }

    /// Returns how many bytes of records the log has behind its snapshot.
    pub fn bytes_behind_snapshot(&self) -> u64 {
        let [written, base] = [&self.progress.written, &self.progress.based_on]
            .map(|position| position.load(Ordering::Relaxed));
        written.saturating_sub(base)
    }

    /// Keeps the snapshot that the log goes on from under another name, where `retention` keeps
    /// history, as a new one is about to take its place.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn keep_snapshot(&self, retention: &Retention) -> io::Result<()> {
        let Some(place) = self.place().clone().filter(|_| retention.keeps_history()) else {
            return Ok(());
        };
        // The start of the log is read, which others may be removing.
        let _removal = self.history.removal();
        let lsn = self.progress.based_on.load(Ordering::SeqCst);
        history::keep_snapshot(&place.path, &*place.storage, lsn)
    }

    /// Notes that the log goes on from a snapshot of `lsn` and so many bytes, which is durable.
    /// What of the log it has is removed, unless it is kept for another reason.
    ///
    /// # Errors
    /// When a file cannot be removed: it is in the way of nothing.
    pub fn note_snapshot(
        &self,
        lsn: Lsn,
        snapshot_bytes: u64,
        settings: &Settings,
        now: UnixMs,
    ) -> io::Result<()> {
        self.progress.based_on.store(lsn.0, Ordering::SeqCst);
        self.progress.snapshot_bytes.store(snapshot_bytes, Ordering::Relaxed);
        self.forget_history(settings, now)
    }

    /// Removes what of the log neither its retention keeps nor anybody needs.
    ///
    /// # Errors
    /// When a file cannot be removed: it is in the way of nothing.
    pub fn forget_history(&self, settings: &Settings, now: UnixMs) -> io::Result<()> {
        let _removal = self.history.removal();
        let Some(place) = self.place().clone().filter(|_| self.is_on()) else { return Ok(()) };
        let (retention, needs) = (&Retention::of(settings), self.needs(settings));
        let (segments, snapshots) = history::forget(&*place.storage, retention, &needs, now)?;
        if segments > 0 {
            self.history.has_removed.store(true, Ordering::SeqCst);
            self.history.wakeup.wake();
        }
        if segments + snapshots > 0 && retention.keeps_history() {
            tracing::info!(segments, snapshots, "History of the append-only file was removed");
        }
        Ok(())
    }

    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        // Each change is one assignment.
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the log in order, and returns once that is done. What waits for it goes on.
    ///
    /// # Errors
    /// A sentence that says why it cannot be ended; it goes on then. A log that has failed ends.
    pub fn turn_off(&self, settings: &Settings, runtime: &Runtime) -> Result<(), String> {
        let mut orders = self.orders();
        orders.ends = true;
        self.wakeup.wake();
        let ended = loop {
            if let Some(ended) = orders.ended.take() {
                break ended;
            }
            orders = self.done.wait(orders).unwrap_or_else(PoisonError::into_inner);
        };
        drop(orders);
        self.history.wakeup.wake();
        if ended.is_ok() {
            keep_changes_for_others(settings, runtime);
        }
        ended
    }

    /// Ends the log, if one is kept, and its thread. To be called when nothing is written any more.
    pub fn end(&self) {
        self.orders().exits = true;
        self.wakeup.wake();
        self.history.exits.store(true, Ordering::SeqCst);
        self.history.wakeup.wake();
    }

    /// Returns whether a log is kept.
    pub fn is_on(&self) -> bool {
        self.progress.is_on.load(Ordering::SeqCst)
    }

    /// Returns whether the log cannot be written any more: who waits for it waits in vain.
    pub fn has_failed(&self) -> bool {
        self.progress.has_failed.load(Ordering::SeqCst)
    }

    /// Returns the LSN up to which the log is durable; none where none is kept.
    pub fn durable_lsn(&self) -> Option<Lsn> {
        self.is_on().then(|| self.last_durable_lsn())
    }

    /// Returns the LSN up to which the log is durable, or was when it was ended.
    pub fn last_durable_lsn(&self) -> Lsn {
        Lsn(self.progress.durable.load(Ordering::SeqCst))
    }

    /// Writes what there is and makes it durable, as the log thread does under `always`, unless
    /// somebody does so now, somebody has panicked in it, or no log is kept: then nothing happens,
    /// and the answer is false.
    /// `begin` is called before the gate moves on. The caller holds no guard, and waits for the
    /// disk.
    pub fn write_here(&self, shared: &ServerState, begin: impl FnOnce()) -> bool {
        let Ok(mut log) = self.log.try_lock() else { return false };
        let Some(log) = &mut *log else { return false };
        begin();
        let patience = log.step(SyncPolicy::Always, shared);
        // What others have appended meanwhile they see to at the end of their rounds.
        if patience.is_some_and(|patience| patience != LOOK_INTERVAL) {
            self.wakeup.wake();
        }
        true
    }

    /// Has the disk awake where a write of the log follows within some 100 us, without waiting for
    /// it where the system allows that. Returns false where it cannot be woken.
    pub fn wake_disk(&self) -> bool {
        match self.log.try_lock() {
            Ok(log) => log.as_ref().is_some_and(|log| log.wake_disk()),
            // It is written to now, or woken.
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }

    fn log(&self) -> MutexGuard<'_, Option<Box<Log>>> {
        // Half of a frame may be written: nothing is appended to that.
        self.log.lock().expect("no writer of the log panics")
    }

    /// Has the log thread look for records now.
    pub fn wake(&self) {
        self.wakeup.wake();
    }

    /// Has the log made durable now, whatever the policy is.
    pub fn want_sync(&self) {
        self.progress.sync_wanted.store(true, Ordering::SeqCst);
        self.wakeup.wake();
    }

    /// Has the log made durable up to `lsn`, which has happened, and returns once it is, or cannot
    /// be: it has failed, or the disk is full, and what the caller does next may make room. Returns
    /// false where the log is ended first, or `is_cancelled`.
    pub fn wait_until_durable(&self, lsn: Lsn, is_cancelled: impl Fn() -> bool) -> bool {
        let is_full = || self.progress.is_full.load(Ordering::Relaxed);
        for look in 0_u32.. {
            if self.last_durable_lsn() >= lsn || self.has_failed() || is_full() {
                break;
            }
            if !self.is_on() || is_cancelled() {
                return false;
            }
            // Once more where a record was not there yet when the log was made durable.
            if look.is_multiple_of(LOOKS_BETWEEN_SYNCS) {
                self.want_sync();
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        true
    }

    /// Has the log thread look for records where there are any, for a thread that looks each now
    /// and then: one whose clients get their replies at once tells nobody that it has written.
    pub fn check(&self, runtime: &Runtime) {
        if !self.is_on() {
            return;
        }
        if self.unwritten_bytes(runtime) > 0 {
            self.wakeup.wake();
        }
    }

    /// Has the log thread look for records where it would not soon by itself, for a worker at the
    /// end of a round: a few loads.
    #[inline]
    pub fn note_round(&self, runtime: &Runtime) {
        if self.progress.is_on.load(Ordering::Relaxed) {
            self.look_at_round(runtime);
        }
    }

    fn look_at_round(&self, runtime: &Runtime) {
        let unwritten = self.unwritten_bytes(runtime);
        let is_much = unwritten >= PROMPT_BYTES;
        let is_slow = unwritten > 0 && self.wakeup.sleeps_long.load(Ordering::Relaxed);
        let progress = &self.progress;
        // A full disk is tried again when it is time, and a failed one never.
        let is_stuck = || {
            let [full, failed] = [&progress.is_full, &progress.has_failed];
            full.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed)
        };
        if (is_much || is_slow) && !is_stuck() {
            self.wakeup.wake();
        }
    }

    fn unwritten_bytes(&self, runtime: &Runtime) -> u64 {
        let latest = runtime.latest_lsn().0;
        latest.saturating_sub(self.progress.written.load(Ordering::Relaxed))
    }

    /// Returns what INFO says.
    pub fn report(&self) -> LogReport {
        let progress = &self.progress;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let is_well = |flag: &AtomicBool| !flag.load(Ordering::Relaxed);
        LogReport {
            is_on: self.is_on(),
            is_well: is_well(&progress.has_failed) && is_well(&progress.is_full),
            // SYNC POINT: whoever counts itself as a follower first sees here what the log thread
            // has come to, or is woken by it. Pairs with the stores before `note_progress`.
            written: progress.written.load(Ordering::SeqCst),
            durable: progress.durable.load(Ordering::SeqCst),
            syncs: count(&progress.syncs),
            delayed_syncs: count(&progress.delayed_syncs),
            snapshot_bytes: count(&progress.snapshot_bytes),
            bytes_behind_snapshot: self.bytes_behind_snapshot(),
            frames: count(&progress.frames),
            file_bytes: count(&progress.file_bytes),
        }
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        // Each change is one assignment.
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the groups that read `log`, which have read none of what it has not.
fn groups_within(log: &mut OpenLog) -> Groups {
    let (mut groups, end) = (std::mem::take(&mut log.groups), log.writer.lsn());
    for (name, lsn) in &mut groups.lsns {
        if *lsn > end {
            // Under `appendfsync no` it has read what a power cut has taken back.
            let name = name.escape_ascii();
            tracing::warn!(%name, lsn, end, "A group of FEED has read behind the log's end");
            *lsn = end;
        }
    }
    groups
}

/// Keeps the changes only where an option asks for that by itself.
fn keep_changes_for_others(settings: &Settings, runtime: &Runtime) {
    let is_kept = settings.instance.effect_backlog_bytes >= effects::BACKLOG_BYTES_MIN;
    runtime.keep_changes(is_kept);
}

/// Wakes the log thread, or the history thread. Costs one exchange while the thread is awake.
#[derive(Default)]
struct Wakeup {
    is_woken: AtomicBool,
    is_sleeping: AtomicBool,
    /// The thread sleeps for longer than it does while records come. Who does not see it soon
    /// enough leaves it to [`Durability::check`].
    sleeps_long: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Wakeup {
    fn wake(&self) {
        // SYNC POINT: woken before a look at the sleeper. Pairs with the store in `wait`.
        if self.is_woken.swap(true, Ordering::SeqCst) {
            // Another wakes it, and it looks for all there is after that.
            return;
        }
        if self.is_sleeping.load(Ordering::SeqCst) {
            // Taken so that the thread is asleep, or has not looked yet.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_one();
        }
    }

    /// Sleeps until it is woken, or `limit` has passed.
    fn wait(&self, limit: Option<Duration>) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SYNC POINT: asleep before a look at what woke it, so that who wakes either sees the flag
        // or is seen here. Pairs with the store in `wake`.
        self.is_sleeping.store(true, Ordering::SeqCst);
        let is_long = limit.is_none_or(|limit| limit > BUSY_LOOK_INTERVAL);
        self.sleeps_long.store(is_long, Ordering::Relaxed);
        while !self.is_woken.load(Ordering::SeqCst) {
            guard = match limit {
                None => self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(limit) => {
                    let waited = self.changed.wait_timeout(guard, limit);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                    break;
                }
            };
        }
        self.sleeps_long.store(false, Ordering::Relaxed);
        self.is_sleeping.store(false, Ordering::SeqCst);
        self.is_woken.swap(false, Ordering::SeqCst);
    }
}
