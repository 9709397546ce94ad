//! The log thread: takes all records that there are, writes them as one frame, makes them durable
//! and lets those go on who wait for that. Under `always` no timer groups records: what one sync
//! makes durable is what gathered during the one before.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use base::Lsn;
use effects::WriteRefusal;
use engine::ReleaseGate;
use runtime::{RecordLog, SYNC_INTERVAL, SyncPolicy};
use wal::{Preparation, Spare, WriteError, Writer, ZEROED_PIECE_BYTES};

use super::{
    BUSY_BYTES, BUSY_LOOK_INTERVAL, LOOK_INTERVAL, PROMPT_BYTES, RunningLog, UNWRITTEN_BYTES_MAX,
};
use crate::server_state::ServerState;

/// Frames of so many bytes and more are written past the system's cache where nobody waits for
/// them: each such write waits for an interrupt of the disk, which is dearer than to copy few
/// bytes.
const PAST_CACHE_BYTES_MIN: u64 = 256 << 10;
/// How often a full disk is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Looks without any record behind which the thread sleeps until it is woken.
const QUIET_LOOKS: u32 = 2;
/// When the next segment is prepared once more after that has failed: on a full disk each attempt
/// takes what writes need.
const SPARE_RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// The log thread's own state.
pub struct LogThread {
    shared: Arc<ServerState>,
}

/// A log that is written.
pub(super) struct Log {
    log: RecordLog,
    quiet_looks: u32,
    spare: Option<SpareInWork>,
    /// Until when none is prepared.
    spare_pause_end: Duration,
    /// The memory of the writer that is counted as memory in use.
    writer_bytes: u64,
}

/// A segment that a thread prepares.
struct SpareInWork {
    /// Tells that thread how much of it is to be zeroed by now, for each piece at most once; none
    /// where it is to give up.
    due: Option<Sender<u64>>,
    /// What it was told last.
    due_bytes: u64,
    prepared: Receiver<io::Result<Spare>>,
}

impl LogThread {
    /// Returns the thread of `shared`, which writes nothing yet.
    pub fn new(shared: Arc<ServerState>) -> LogThread {
        LogThread { shared }
    }

    /// Runs until it is told to end.
    ///
    /// # Errors
    /// A sentence that says why the log has no end: changes that were made may not be in it.
    pub fn run(self) -> Result<(), String> {
        let durability = &self.shared.durability;
        loop {
            if let Some(ended) = self.obey() {
                return ended.map_err(|reason| {
                    format!("Changes of the end may not be in the append-only file: {reason}")
                });
            }
            if sys::crash::has_begun() {
                sys::crash::wait_for_the_end();
            }
            let patience = {
                let mut log = durability.log();
                // Behind the lock, for which a worker may let it wait while the policy changes.
                let policy = self.shared.settings().persistence.sync_policy;
                log.as_mut().and_then(|log| log.step(policy, &self.shared))
            };
            match patience {
                Some(Duration::ZERO) => {}
                patience => durability.wakeup.wait(patience),
            }
        }
    }

    /// Does what it was told to; where that is to end, returns how the log did.
    fn obey(&self) -> Option<Result<(), String>> {
        let durability = &self.shared.durability;
        let (begin, ends, exits) = {
            let mut orders = durability.orders();
            (orders.begin.take(), orders.ends, orders.exits)
        };
        if let Some(begin) = begin {
            *durability.log() = Some(Box::new(Log::new(*begin)));
        }
        if !ends && !exits {
            return None;
        }
        let log = durability.log().take();
        let ended = log.map_or(Ok(()), |log| log.end(&self.shared));
        let ended = ended.map_err(|(log, reason)| {
            tracing::error!("The append-only file cannot be ended in order: {reason}");
            *durability.log() = Some(log);
            reason
        });
        if ends {
            let mut orders = durability.orders();
            orders.ends = false;
            orders.ended = Some(ended.clone());
            durability.done.notify_all();
        }
        exits.then_some(ended)
    }
}

/// Returns how segments are prepared for a log that is made durable by `policy`.
fn preparation_for(policy: SyncPolicy) -> Preparation {
    match policy {
        // Each write waits for a sync.
        SyncPolicy::Always => Preparation::Zeroed,
        // To write zeroes first would cost more than the syncs of all seconds.
        SyncPolicy::EverySecond | SyncPolicy::Never => Preparation::Reserved,
    }
}

impl SpareInWork {
    /// Lets the thread zero up to `due_bytes` of `segment_bytes`, a piece at least.
    fn go_on(&mut self, due_bytes: u64, segment_bytes: u64) {
        if due_bytes >= segment_bytes.min(self.due_bytes + ZEROED_PIECE_BYTES)
            && self.due_bytes < segment_bytes
        {
            self.due_bytes = due_bytes;
            // One that has ended says how, by the other channel.
            let _ = self.due.as_ref().map(|due| due.send(due_bytes));
        }
    }

    fn give_up(&mut self) {
        self.due = None;
    }
}

impl Log {
    fn new(RunningLog { log, consumer }: RunningLog) -> Log {
        Log {
            log: RecordLog::new(log, consumer, sys::clock::monotonic()),
            quiet_looks: 0,
            spare: None,
            spare_pause_end: Duration::ZERO,
            writer_bytes: 0,
        }
    }

    /// Has the disk awake for the next frame; returns whether it could be asked for something.
    pub(super) fn wake_disk(&self) -> bool {
        let woken = self.log.writer().map(Writer::wake_disk);
        if let Some(Err(error)) = &woken {
            tracing::debug!(%error, "The disk of the append-only file cannot be woken");
        }
        matches!(woken, Some(Ok(())))
    }

    fn writer(&self) -> &Writer {
        self.log.writer().expect("it has not failed")
    }

    /// Writes what there is and makes it durable where it is time; returns how long nothing is to
    /// be done, for ever if none.
    pub(super) fn step(&mut self, policy: SyncPolicy, shared: &ServerState) -> Option<Duration> {
        self.log.writer()?;
        let is_wanted = shared.durability.progress.sync_wanted.swap(false, Ordering::SeqCst);
        let bytes_min = match policy {
            // A sync follows, which would have to wait for what the cache has.
            SyncPolicy::Always => Some(0),
            SyncPolicy::EverySecond => Some(PAST_CACHE_BYTES_MIN),
            // Nobody is to wait for the disk.
            SyncPolicy::Never => None,
        };
        let writer = self.log.writer_mut();
        writer.set_past_cache_bytes_min(bytes_min);
        writer.set_preparation(preparation_for(policy));
        let written = self.write(policy == SyncPolicy::Always || is_wanted, shared);
        self.count_writer(shared);
        let is_full = matches!(written, Err(WriteError::Full(_)));
        if is_full && is_wanted {
            shared.durability.progress.sync_wanted.store(true, Ordering::SeqCst);
        }
        let record_bytes = *written.as_ref().unwrap_or(&0);
        // What was written before the disk was full is made durable all the same.
        let synced = match written {
            Ok(_) | Err(WriteError::Full(_)) => self.sync(policy, is_wanted, shared),
            Err(error) => Err(error),
        };
        if let Err(WriteError::Full(error) | WriteError::Failed(error)) = synced {
            self.fail(&error, shared);
            return None;
        }
        self.publish(shared);
        if is_full {
            self.give_up_spare();
            return Some(RETRY_INTERVAL);
        }
        self.keep_spare(policy);
        if record_bytes > 0 && shared.due_growth().is_some() {
            shared.service_waker.wake();
        }
        self.patience(policy, record_bytes)
    }

    /// Counts what memory the writer has taken or given back.
    fn count_writer(&mut self, shared: &ServerState) {
        let bytes = self.log.writer().map_or(0, Writer::memory_bytes);
        if bytes != self.writer_bytes {
            shared.runtime.recharge(self.writer_bytes, bytes);
            self.writer_bytes = bytes;
        }
    }

    /// Writes a frame of what there is, and further ones where all of it is wanted; returns how
    /// many bytes of records those have.
    fn write(&mut self, is_all_wanted: bool, shared: &ServerState) -> Result<u64, WriteError> {
        let end = self.log.consumer().latest();
        let mut record_bytes = self.write_frame(shared)?;
        while is_all_wanted && self.log.consumer().position() < end {
            record_bytes += self.write_frame(shared)?;
        }
        Ok(record_bytes)
    }

    /// Writes a frame of what there is; returns how many bytes of records it has, 0 where there was
    /// nothing.
    fn write_frame(&mut self, shared: &ServerState) -> Result<u64, WriteError> {
        let appended = self.log.write_frame();
        if matches!(appended, Ok(None)) {
            return Ok(0);
        }
        let progress = &shared.durability.progress;
        let admission = shared.keyspace().admission();
        let was_full = progress.is_full.load(Ordering::Relaxed);
        match &appended {
            Ok(_) if was_full => {
                admission.allow(WriteRefusal::DiskFull);
                progress.is_full.store(false, Ordering::Relaxed);
                tracing::warn!("AOF write error looks solved. The server can write again.");
            }
            Err(WriteError::Full(error)) => {
                // Whoever sees that the disk is full has no write taken any more.
                admission.refuse_for(WriteRefusal::DiskFull, error);
                progress.is_full.store(true, Ordering::Relaxed);
                if !was_full {
                    tracing::warn!(%error, "Error writing to the AOF file");
                }
            }
            // It stays full until the caller has seen to the failure.
            Ok(_) | Err(WriteError::Failed(_)) => {}
        }
        let written = appended?.expect("there was something to write");
        progress.frames.fetch_add(1, Ordering::Relaxed);
        progress.file_bytes.fetch_add(written.file_bytes, Ordering::Relaxed);
        Ok(written.record_bytes)
    }

    fn sync(
        &mut self,
        policy: SyncPolicy,
        is_wanted: bool,
        shared: &ServerState,
    ) -> Result<(), WriteError> {
        let begun = sys::clock::monotonic();
        if !is_wanted && !self.log.is_sync_due(policy, begun) || !self.log.sync(begun)? {
            return Ok(());
        }
        let progress = &shared.durability.progress;
        progress.syncs.fetch_add(1, Ordering::Relaxed);
        if sys::clock::monotonic() - begun > SYNC_INTERVAL {
            progress.delayed_syncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Tells all who wait how far the log has come.
    fn publish(&self, shared: &ServerState) {
        let writer = self.writer();
        let progress = &shared.durability.progress;
        progress.written.store(writer.lsn(), Ordering::SeqCst);
        progress.durable.store(writer.durable_lsn(), Ordering::SeqCst);
        shared.durability.note_progress();
        // The policy may have changed since the frame was begun.
        shared.release_replies(|policy| {
            Lsn(match policy {
                SyncPolicy::Always => writer.durable_lsn(),
                SyncPolicy::EverySecond | SyncPolicy::Never => writer.lsn() + UNWRITTEN_BYTES_MAX,
            })
        });
    }

    /// Never writes again. Replies that wait will never leave; who waits for them is told by the
    /// end of the connection that what was asked may have happened or not.
    fn fail(&mut self, error: &io::Error, shared: &ServerState) {
        shared.keyspace().admission().refuse_for(WriteRefusal::LogFailed, error);
        tracing::error!(
            %error,
            "The append-only file cannot be written or made durable any more; no write is taken \
             until the server is started again"
        );
        shared.durability.progress.has_failed.store(true, Ordering::SeqCst);
        self.log.fail();
        if let Some(spare) = &mut self.spare {
            spare.give_up();
        }
        self.count_writer(shared);
        shared.mailboxes.iter().for_each(|mailbox| mailbox.release());
    }

    /// Has the next segment prepared, by a thread that nobody waits for.
    fn keep_spare(&mut self, policy: SyncPolicy) {
        if self.spare.is_none() {
            self.begin_spare(policy);
        }
        let Some(spare) = &mut self.spare else { return };
        let writer = self.log.writer_mut();
        match spare.prepared.try_recv() {
            Err(TryRecvError::Empty) => {
                return spare.go_on(writer.spare_due_bytes(), writer.segment_bytes());
            }
            Ok(Ok(spare)) => writer.offer_spare(spare),
            Ok(Err(error)) => self.pause_spares(&error),
            Err(TryRecvError::Disconnected) => {}
        }
        self.spare = None;
    }

    /// Begins to prepare a segment where one is wanted.
    fn begin_spare(&mut self, policy: SyncPolicy) {
        let writer = self.writer();
        if !writer.wants_spare() || sys::clock::monotonic() < self.spare_pause_end {
            return;
        }
        let (sender, prepared) = channel();
        let (due, told) = channel();
        let (storage, segment_bytes) = (Arc::clone(self.log.storage()), writer.segment_bytes());
        let preparation = preparation_for(policy);
        let mut due_bytes = 0;
        let await_turn = move |end| {
            while due_bytes < end {
                let Ok(bytes) = told.recv() else { return false };
                due_bytes = bytes;
            }
            true
        };
        let prepare = move || {
            // Who does not want it any more has ended.
            let _ =
                sender.send(wal::prepare_spare(&*storage, segment_bytes, preparation, await_turn));
        };
        let started = std::thread::Builder::new().name("log-spare".to_owned()).spawn(prepare);
        match started {
            Ok(_) => self.spare = Some(SpareInWork { due: Some(due), due_bytes: 0, prepared }),
            Err(error) => self.pause_spares(&error),
        }
    }

    /// Leaves the room of the next segment to the log, whose frame the disk has no room for, and
    /// prepares none for a while. One that is ready helps no more: that frame is begun in another.
    fn give_up_spare(&mut self) {
        self.end_spare();
        if let Err(error) = self.log.writer_mut().discard_spare() {
            tracing::warn!(%error, "The next segment of the log cannot be removed");
        }
        self.spare_pause_end = sys::clock::monotonic() + SPARE_RETRY_INTERVAL;
    }

    /// Prepares no segment for a while: the writer makes one itself, more slowly.
    fn pause_spares(&mut self, error: &io::Error) {
        tracing::warn!(%error, "The next segment of the log cannot be prepared");
        self.spare_pause_end = sys::clock::monotonic() + SPARE_RETRY_INTERVAL;
    }

    fn patience(&mut self, policy: SyncPolicy, record_bytes: u64) -> Option<Duration> {
        self.quiet_looks = if record_bytes > 0 { 0 } else { self.quiet_looks.saturating_add(1) };
        let consumer = self.log.consumer();
        let untaken = consumer.latest().0 - consumer.position().0;
        if untaken >= PROMPT_BYTES {
            return Some(Duration::ZERO);
        }
        if policy == SyncPolicy::Always {
            // A worker wakes this thread once it has executed all that it had, and all of that
            // becomes durable at once: what is there before is a part of it.
            return (untaken > 0).then_some(LOOK_INTERVAL);
        }
        if record_bytes >= BUSY_BYTES {
            return Some(BUSY_LOOK_INTERVAL);
        }
        if self.quiet_looks < QUIET_LOOKS {
            return Some(LOOK_INTERVAL);
        }
        let writer = self.writer();
        let is_dirty = writer.durable_lsn() < writer.lsn() && policy == SyncPolicy::EverySecond;
        let since = sys::clock::monotonic() - self.log.synced_at();
        is_dirty.then(|| SYNC_INTERVAL.saturating_sub(since).max(LOOK_INTERVAL))
    }

    /// Writes what is left, makes it durable and lets everybody go on.
    ///
    /// # Errors
    /// The log, which goes on, and why it cannot end: what waits for it would be told what is not
    /// so.
    fn end(mut self: Box<Log>, shared: &ServerState) -> Result<(), (Box<Log>, String)> {
        if let Err(error) = self.finish(shared) {
            let reason = error.to_string();
            if let WriteError::Failed(error) = error {
                self.fail(&error, shared);
            }
            return Err((self, reason));
        }
        self.count_writer(shared);
        // While the consumer is there records are kept for it.
        drop(self);
        shared.durability.progress.is_on.store(false, Ordering::SeqCst);
        for reason in [WriteRefusal::DiskFull, WriteRefusal::LogFailed] {
            shared.keyspace().admission().allow(reason);
        }
        shared.release_replies(|_| ReleaseGate::ALL);
        Ok(())
    }

    fn finish(&mut self, shared: &ServerState) -> Result<(), WriteError> {
        if self.log.writer().is_none() {
            self.end_spare();
            return Ok(());
        }
        // What others change meanwhile is not waited for: there might be no end to it.
        self.write(true, shared)?;
        self.sync(SyncPolicy::Always, true, shared)?;
        let writer = self.log.take_writer();
        let progress = &shared.durability.progress;
        progress.written.store(writer.lsn(), Ordering::SeqCst);
        progress.durable.store(writer.durable_lsn(), Ordering::SeqCst);
        self.end_spare();
        if let Err(error) = writer.close() {
            // All of it is durable; only that it has ended in order is not in it.
            tracing::warn!(%error, "The append-only file has no mark of its end");
        }
        Ok(())
    }

    /// Has the thread that prepares the next segment give it up, and waits for that: until then it
    /// is in the way of another, which has the same name.
    fn end_spare(&mut self) {
        if let Some(mut spare) = self.spare.take() {
            spare.give_up();
            drop(spare.prepared.recv());
        }
    }
}

#[cfg(test)]
mod tests {
    use wal::simulated::{Faults, SimulatedDisk};

    use super::*;
    use crate::durability::tests::{fill, start};

    #[test]
    fn log_that_fails_while_the_disk_is_full_admits_no_write_in_between() {
        let disk = SimulatedDisk::new();
        let server = start(&disk, "appendfsync always\nworkers 1");
        fill(&disk, &server, &mut server.client());
        let refused = || server.shared.keyspace().admission().refused();
        // The thread of the log waits meanwhile.
        let mut log = server.shared.durability.log();
        disk.set_faults(Faults { writes_left: Some(0), ..Faults::default() });
        let log = log.as_mut().unwrap();
        assert!(matches!(log.write_frame(&server.shared), Err(WriteError::Failed(_))));
        assert_eq!(refused(), Some(WriteRefusal::DiskFull));
        log.step(SyncPolicy::Always, &server.shared);
        assert_eq!(refused(), Some(WriteRefusal::LogFailed));
    }

    #[test]
    fn zeroes_are_due_in_pieces_up_to_the_end() {
        const SEGMENT_BYTES: u64 = 2 * ZEROED_PIECE_BYTES + 100;
        let (due, told) = channel();
        let mut spare = SpareInWork { due: Some(due), due_bytes: 0, prepared: channel().1 };
        let mut tell = |due_bytes| {
            spare.go_on(due_bytes, SEGMENT_BYTES);
            told.try_recv().ok()
        };
        assert_eq!(tell(0), None);
        assert_eq!(tell(ZEROED_PIECE_BYTES - 1), None);
        assert_eq!(tell(ZEROED_PIECE_BYTES + 1), Some(ZEROED_PIECE_BYTES + 1));
        assert_eq!(tell(2 * ZEROED_PIECE_BYTES), None, "most of a piece");
        assert_eq!(tell(SEGMENT_BYTES), Some(SEGMENT_BYTES), "less than a piece, but the last");
        assert_eq!(tell(SEGMENT_BYTES), None, "it knows");
        assert_eq!(tell(0), None, "the segment that is written is a new one");
    }
}
