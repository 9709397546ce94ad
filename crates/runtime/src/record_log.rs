//! The end of a log and the changes that are to be written there, for whoever writes them: the log
//! thread of a server, or who has run a request of an embedded instance.

use std::sync::Arc;
use std::time::Duration;

use base::Lsn;
use effects::{Consumer, SharedRecords};
use wal::{Piece, Storage, WriteError, Writer};

use crate::log_folder::{OpenLog, SyncPolicy};

/// The most bytes of records in one frame, but for a record that is longer.
const FRAME_BYTES_MAX: usize = wal::BUFFERED_PAYLOAD_BYTES_MAX;
/// The disk takes a piece of the backlog from where it lies.
const _: () = assert!(effects::BLOCK_BYTES == wal::BLOCK_BYTES);
/// How often the log is made durable under [`SyncPolicy::EverySecond`].
pub const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// A log that is written.
pub struct RecordLog {
    storage: Arc<dyn Storage>,
    /// None once it has failed or has ended.
    writer: Option<Writer>,
    consumer: Consumer,
    /// Records that are to be written.
    records: SharedRecords,
    /// By the steady clock.
    synced_at: Duration,
    _lock: wal::Lock,
}

/// How long a frame is that was written, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct WrittenFrame {
    /// Its records.
    pub record_bytes: u64,
    /// All of it.
    pub file_bytes: u64,
}

impl RecordLog {
    /// Returns what writes the changes that `consumer` reads to `log`; it is `now` by the steady
    /// clock.
    ///
    /// # Panics
    /// When the log does not go on where the changes begin.
    pub fn new(log: OpenLog, consumer: Consumer, now: Duration) -> RecordLog {
        let OpenLog { storage, lock, writer, .. } = log;
        assert_eq!(consumer.position().0, writer.lsn(), "the log goes on where the stream begins");
        RecordLog {
            storage,
            writer: Some(writer),
            consumer,
            records: SharedRecords::default(),
            synced_at: now,
            _lock: lock,
        }
    }

    /// Returns where the log is.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Returns its end; none once it has failed or has ended.
    pub fn writer(&self) -> Option<&Writer> {
        self.writer.as_ref()
    }

    /// As [`RecordLog::writer`], to be given a spare segment.
    ///
    /// # Panics
    /// When there is none.
    pub fn writer_mut(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("it has not failed")
    }

    /// Returns how far the changes are read.
    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// Returns when it was made durable last, or when this was made.
    pub fn synced_at(&self) -> Duration {
        self.synced_at
    }

    /// Writes what was changed up to `end`, and of later changes no more than are in the last of
    /// the frames.
    ///
    /// # Errors
    /// As [`RecordLog::write_frame`].
    ///
    /// # Panics
    /// As [`RecordLog::write_frame`], and when nothing was changed up to `end` yet.
    pub fn write_until(&mut self, end: Lsn) -> Result<(), WriteError> {
        // Records that a full disk had no room for are behind the consumer already.
        while !self.records.is_empty() || self.consumer.position() < end {
            let written = self.write_frame()?;
            assert!(written.is_some(), "there are changes up to {end:?}");
        }
        Ok(())
    }

    /// Writes a frame of the changes that there are; returns how long it is, if there are any.
    ///
    /// # Errors
    /// [`WriteError`]; where the disk is full the next call tries the same once more.
    ///
    /// # Panics
    /// When it has failed or has ended.
    pub fn write_frame(&mut self) -> Result<Option<WrittenFrame>, WriteError> {
        if self.records.is_empty() {
            let taken = self.consumer.share(FRAME_BYTES_MAX, &mut self.records);
            taken.expect("records are kept for a consumer that is waited for");
        }
        if self.records.is_empty() {
            return Ok(None);
        }
        let writer = self.writer.as_mut().expect("it has not failed");
        let pieces = self.records.pieces().map(|(bytes, checksum)| Piece { bytes, checksum });
        let file_bytes = writer.append_pieces(pieces)?;
        let record_bytes = self.records.byte_count() as u64;
        self.consumer.be_done(&mut self.records);
        Ok(Some(WrittenFrame { record_bytes, file_bytes }))
    }

    /// Returns whether what was written is to be made durable at `now` by `policy`.
    pub fn is_sync_due(&self, policy: SyncPolicy, now: Duration) -> bool {
        match policy {
            SyncPolicy::Always => true,
            SyncPolicy::EverySecond => now.saturating_sub(self.synced_at) >= SYNC_INTERVAL,
            SyncPolicy::Never => false,
        }
    }

    /// Makes what was written durable, which begins at `now`; returns whether there was anything.
    ///
    /// # Errors
    /// [`WriteError::Failed`].
    ///
    /// # Panics
    /// When it has failed or has ended.
    pub fn sync(&mut self, now: Duration) -> Result<bool, WriteError> {
        let writer = self.writer.as_mut().expect("it has not failed");
        if writer.durable_lsn() == writer.lsn() {
            return Ok(false);
        }
        writer.sync()?;
        self.synced_at = now;
        Ok(true)
    }

    /// Never writes again: nobody knows what of the last bytes is on the disk.
    pub fn fail(&mut self) {
        self.writer = None;
        self.consumer.be_done(&mut self.records);
    }

    /// Takes the end of the log, to close it.
    ///
    /// # Panics
    /// When there is none.
    pub fn take_writer(&mut self) -> Writer {
        self.writer.take().expect("it has not failed")
    }
}
