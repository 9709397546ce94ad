//! The latest records, kept in memory for consumers: each has a position of its own.
//!
//! Two halves instead of a ring: a record is encoded once, in one piece, after the previous one;
//! when the newer half is full the older one is dropped. So between half and all of the configured
//! bytes are kept, and a record that makes a half larger than its share is kept in full. A record
//! larger than the whole is not kept: a consumer that needs it needs a copy of everything anyway.
//!
//! For a consumer that has to see every record, such as a log, records are kept until it has read
//! them, and where it is too far behind no write is admitted until it has caught up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::Lsn;

use crate::admission::{Admission, WriteRefusal};
use crate::record::{EffectSink, Record, RecordHeader};

/// The least that a backlog may be told to keep, in bytes: one in each half.
pub const BACKLOG_BYTES_MIN: u64 = 2;

/// Room behind a half for the record that fills it, so that a usual one does not move the half.
const RECORD_BYTES_USUAL: usize = 64 * 1024;

/// Keeps the bytes of the latest records. An LSN is the number of bytes up to a record's end.
pub struct Backlog {
    halves: Mutex<Halves>,
    half_bytes: usize,
    admission: Arc<Admission>,
    /// The memory that was reported last.
    reported_bytes: Mutex<u64>,
    /// The memory may have changed since.
    has_unreported: AtomicBool,
}

struct Halves {
    newer: Vec<u8>,
    older: Vec<u8>,
    end: u64,
    /// The consumers that are waited for.
    required: Vec<RequiredConsumer>,
    next_id: u64,
}

struct RequiredConsumer {
    id: u64,
    position: u64,
    lag_bytes_max: u64,
}

/// What the backlog holds at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogExtent {
    /// The LSN before the oldest byte kept.
    pub start: Lsn,
    /// The LSN of the latest record.
    pub end: Lsn,
}

/// Records that a consumer has not read are not kept any more: it needs a copy of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Where the records begin that are kept.
    pub oldest: Lsn,
}

/// The consumers of the backlog, each with a position of its own.
pub struct Consumer {
    backlog: Arc<Backlog>,
    position: Lsn,
    /// Its number among those that are waited for.
    required: Option<u64>,
}

impl Backlog {
    /// Returns an empty backlog of `bytes`, which goes on behind `start` and refuses writes by
    /// `admission` where somebody who is waited for is too far behind.
    ///
    /// # Panics
    /// When `bytes` is below [`BACKLOG_BYTES_MIN`].
    pub fn new(bytes: u64, start: Lsn, admission: Arc<Admission>) -> Backlog {
        assert!(bytes >= BACKLOG_BYTES_MIN, "a backlog of {bytes} bytes keeps nothing");
        let half_bytes = usize::try_from(bytes / 2).expect("an address has 64 bits");
        let [newer, older] = [new_half(half_bytes), new_half(half_bytes)];
        let halves = Halves { newer, older, end: start.0, required: Vec::new(), next_id: 0 };
        Backlog {
            halves: Mutex::new(halves),
            half_bytes,
            admission,
            reported_bytes: Mutex::new(0),
            has_unreported: AtomicBool::new(true),
        }
    }

    /// Returns what the backlog holds.
    pub fn extent(&self) -> BacklogExtent {
        let halves = self.lock();
        BacklogExtent { start: Lsn(halves.start()), end: Lsn(halves.end) }
    }

    /// Returns a consumer of what comes from now on. It loses records where it is slower than the
    /// backlog is long.
    pub fn consumer(self: &Arc<Backlog>) -> Consumer {
        let position = self.extent().end;
        Consumer { backlog: Arc::clone(self), position, required: None }
    }

    /// Returns a consumer of what comes behind `position`, the LSN of a record that it has.
    ///
    /// # Errors
    /// Where not all of that is kept, or it has not happened.
    pub fn consumer_from(self: &Arc<Backlog>, position: Lsn) -> Result<Consumer, Lost> {
        let extent = self.extent();
        if position < extent.start || position > extent.end {
            return Err(Lost { oldest: extent.start });
        }
        Ok(Consumer { backlog: Arc::clone(self), position, required: None })
    }

    /// Returns a consumer of what comes from now on, that loses nothing: while it has not read the
    /// latest `lag_bytes_max` and more, no write is admitted. What was admitted before then is kept
    /// beyond the backlog's own bytes.
    pub fn required_consumer(self: &Arc<Backlog>, lag_bytes_max: u64) -> Consumer {
        let mut halves = self.lock();
        let (id, position) = (halves.next_id, halves.end);
        halves.next_id += 1;
        halves.required.push(RequiredConsumer { id, position, lag_bytes_max });
        drop(halves);
        Consumer { backlog: Arc::clone(self), position: Lsn(position), required: Some(id) }
    }

    /// Calls `report` with how many bytes the memory has grown and shrunk since the last call.
    /// Costs one load where it has not changed.
    pub fn report_memory(&self, report: impl FnOnce(u64, u64)) {
        if !self.has_unreported.load(Ordering::Relaxed) {
            return;
        }
        // Held until it is reported: what one thread says has grown, another may say has shrunk
        // next.
        let mut reported = self.reported_bytes.lock().expect("reporting memory does not panic");
        // Before the look: a change from here on is reported again.
        self.has_unreported.store(false, Ordering::Relaxed);
        let bytes = self.lock().memory_bytes();
        report(bytes.saturating_sub(*reported), reported.saturating_sub(bytes));
        *reported = bytes;
    }

    fn lock(&self) -> MutexGuard<'_, Halves> {
        self.halves.lock().expect("encoding a record does not panic")
    }

    /// Refuses or admits writes by how far behind those are who are waited for.
    fn settle_admission(&self, halves: &Halves) {
        let lag = |consumer: &RequiredConsumer| halves.end - consumer.position;
        let is_behind = |consumer: &RequiredConsumer| lag(consumer) > consumer.lag_bytes_max;
        // Twice as near as it has to be, so that writes do not stop and go with each record.
        let is_near = |consumer: &RequiredConsumer| lag(consumer) <= consumer.lag_bytes_max / 2;
        if halves.required.iter().any(is_behind) {
            self.admission.refuse(WriteRefusal::LogFull);
        } else if halves.required.iter().all(is_near) {
            self.admission.allow(WriteRefusal::LogFull);
        }
    }
}

impl Consumer {
    /// Returns the LSN of the last record that was read, or behind which reading began.
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// Returns the LSN of the latest record, read or not.
    pub fn latest(&self) -> Lsn {
        self.backlog.extent().end
    }

    /// Appends the next records to `out`, whole ones of at most `bytes_max` together, but one at
    /// least where there is any; returns the bytes appended.
    ///
    /// # Errors
    /// When the next record is not kept any more; the position stays.
    pub fn read(&mut self, bytes_max: usize, out: &mut Vec<u8>) -> Result<usize, Lost> {
        let mut halves = self.backlog.lock();
        let Some(bytes) = halves.from(self.position.0) else {
            return Err(Lost { oldest: Lsn(halves.start()) });
        };
        let taken = whole_records(bytes, bytes_max);
        out.extend_from_slice(&bytes[..taken]);
        self.position.0 += taken as u64;
        if let Some(id) = self.required {
            let mut required = halves.required.iter_mut();
            let this = required.find(|consumer| consumer.id == id).expect("it is registered");
            this.position = self.position.0;
            self.backlog.settle_admission(&halves);
        }
        Ok(taken)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let Some(id) = self.required else { return };
        let mut halves = self.backlog.lock();
        halves.required.retain(|consumer| consumer.id != id);
        self.backlog.settle_admission(&halves);
    }
}

/// Returns how many of `bytes`, which begin with a record, are whole records of at most `bytes_max`
/// together, or the first one.
fn whole_records(bytes: &[u8], bytes_max: usize) -> usize {
    if bytes.len() <= bytes_max {
        // Writers wait meanwhile: no record is looked at where all are taken.
        return bytes.len();
    }
    let mut taken = 0;
    while taken < bytes.len() {
        let header = RecordHeader::read(&bytes[taken..]).expect("the backlog has whole records");
        let length = header.length as usize;
        if taken > 0 && taken + length > bytes_max {
            break;
        }
        taken += length;
    }
    taken
}

impl Halves {
    /// Returns the position of the oldest byte.
    fn start(&self) -> u64 {
        self.end - (self.newer.len() + self.older.len()) as u64
    }

    /// Returns what is kept in one piece from `position` on; none where not all of it is.
    fn from(&self, position: u64) -> Option<&[u8]> {
        let newer_start = self.end - self.newer.len() as u64;
        match position.checked_sub(newer_start) {
            Some(offset) => self.newer.get(offset as usize..),
            None => self.older.get(position.checked_sub(self.start())? as usize..),
        }
    }

    /// Returns whether a consumer that has to see everything has not read all of the older half.
    fn is_older_wanted(&self) -> bool {
        let newer_start = self.end - self.newer.len() as u64;
        self.required.iter().any(|consumer| consumer.position < newer_start)
    }

    /// Makes the newer half the older one.
    fn swap(&mut self, half_bytes: usize) {
        let kept = half_bytes + RECORD_BYTES_USUAL;
        std::mem::swap(&mut self.newer, &mut self.older);
        self.newer.clear();
        // A record larger than a half has grown them; that memory is not kept.
        self.newer.shrink_to(kept);
        self.older.shrink_to(kept);
    }

    /// Forgets all records; the end stays where it is.
    fn forget(&mut self, half_bytes: usize) {
        self.newer = new_half(half_bytes);
        self.older.clear();
        self.older.shrink_to(half_bytes + RECORD_BYTES_USUAL);
    }

    fn memory_bytes(&self) -> u64 {
        (self.newer.capacity() + self.older.capacity()) as u64
    }
}

/// Returns an empty half, touched now: a shortage shows at the start, and no write waits for a page
/// later.
fn new_half(half_bytes: usize) -> Vec<u8> {
    // Not `vec![0; ..]`: zero pages of the system would only be promised.
    let mut bytes = vec![1; half_bytes + RECORD_BYTES_USUAL];
    bytes.clear();
    bytes
}

impl EffectSink for Backlog {
    fn append(&self, record: &Record<'_>) -> Lsn {
        let mut halves = self.lock();
        let memory_bytes = halves.memory_bytes();
        if halves.newer.len() >= self.half_bytes && !halves.is_older_wanted() {
            halves.swap(self.half_bytes);
        }
        let before = halves.newer.len();
        let lsn = record.encode(Lsn(halves.end), &mut halves.newer);
        let record_bytes = halves.newer.len() - before;
        halves.end = lsn.0;
        if halves.required.is_empty() {
            if record_bytes > 2 * self.half_bytes {
                halves.forget(self.half_bytes);
            }
        } else {
            self.settle_admission(&halves);
        }
        if halves.memory_bytes() != memory_bytes {
            self.has_unreported.store(true, Ordering::Relaxed);
        }
        lsn
    }
}

#[cfg(test)]
mod tests {
    use base::{DatabaseIndex, UnixMs};

    use super::*;
    use crate::{Change, Effect, EventClass, Expiry, RecordView};

    fn backlog(bytes: u64) -> (Arc<Backlog>, Arc<Admission>) {
        let admission = Arc::new(Admission::default());
        (Arc::new(Backlog::new(bytes, Lsn(0), Arc::clone(&admission))), admission)
    }

    fn append(backlog: &Backlog, value: &[u8]) -> Lsn {
        let effect = Effect::Set { key: b"k", value, expiry: Expiry::Clear };
        let change = Change::new(DatabaseIndex(0), EventClass::String, effect);
        backlog.append(&Record::one(UnixMs(1), &change))
    }

    /// Reads all that there is, in pieces of at most `bytes_max`, and returns the values.
    fn read(consumer: &mut Consumer, bytes_max: usize) -> Result<Vec<String>, Lost> {
        let mut values = Vec::new();
        loop {
            let mut piece = Vec::new();
            if consumer.read(bytes_max, &mut piece)? == 0 {
                return Ok(values);
            }
            let mut rest = piece.as_slice();
            while !rest.is_empty() {
                let record = RecordView::read(rest).unwrap();
                let Effect::Set { value, .. } = record.changes().next().unwrap().effect else {
                    panic!("only SET was appended")
                };
                values.push(String::from_utf8(value.to_vec()).unwrap());
                rest = &rest[record.header().length as usize..];
            }
        }
    }

    #[test]
    fn consumers_read_from_positions_of_their_own() {
        let (backlog, _) = backlog(1 << 16);
        let mut first = backlog.consumer();
        let lsn = append(&backlog, b"a");
        let mut second = backlog.consumer_from(lsn).unwrap();
        append(&backlog, b"b");
        append(&backlog, b"c");
        assert_eq!(read(&mut second, 1).unwrap(), ["b", "c"]);
        assert_eq!(read(&mut first, 1 << 20).unwrap(), ["a", "b", "c"]);
        assert_eq!(first.position(), backlog.extent().end);
        assert_eq!(read(&mut first, 1).unwrap(), Vec::<String>::new());
        assert!(backlog.consumer_from(Lsn(lsn.0 + 1_000_000)).is_err());
    }

    #[test]
    fn old_records_are_forgotten_by_halves_and_a_slow_consumer_learns_of_it() {
        let (backlog, admission) = backlog(400);
        let mut slow = backlog.consumer();
        let one = append(&backlog, b"0").0;
        let mut last = Lsn(0);
        for number in 1..100 {
            last = append(&backlog, number.to_string().as_bytes());
            let extent = backlog.extent();
            assert_eq!(extent.end, last);
            let kept = extent.end.0 - extent.start.0;
            assert!(kept <= 400 + 2 * (one + 8), "{kept} bytes are kept");
            assert!(kept >= 200.min(last.0), "{kept} bytes are kept of {}", last.0);
        }
        let lost = slow.read(1, &mut Vec::new()).unwrap_err();
        assert_eq!(lost.oldest, backlog.extent().start);
        let mut again = backlog.consumer_from(lost.oldest).unwrap();
        assert_eq!(read(&mut again, 100).unwrap().last().unwrap(), "99");
        assert_eq!(again.position(), last);
        assert_eq!(admission.refused(), None, "nobody is waited for");
    }

    #[test]
    fn required_consumer_loses_nothing_and_stops_writes_where_it_is_behind() {
        let (backlog, admission) = backlog(400);
        let mut log = backlog.required_consumer(2_000);
        let mut written = Vec::new();
        while admission.refused().is_none() {
            written.push(written.len().to_string());
            append(&backlog, written.last().unwrap().as_bytes());
            assert!(written.len() < 1000, "writes are refused in the end");
        }
        assert_eq!(admission.refused(), Some(WriteRefusal::LogFull));
        // What was admitted before is kept too.
        written.push("more".to_owned());
        append(&backlog, b"more");
        let mut piece = Vec::new();
        log.read(1, &mut piece).unwrap();
        assert_eq!(admission.refused(), Some(WriteRefusal::LogFull), "still far behind");
        assert_eq!(read(&mut log, 100).unwrap(), written[1..]);
        assert_eq!(admission.refused(), None);
        for number in 0..1000 {
            append(&backlog, number.to_string().as_bytes());
        }
        assert_eq!(admission.refused(), Some(WriteRefusal::LogFull));
        drop(log);
        assert_eq!(admission.refused(), None, "nobody is waited for any more");
        append(&backlog, b"x");
        append(&backlog, b"x");
        let extent = backlog.extent();
        assert!(extent.end.0 - extent.start.0 < 100_000);
    }

    #[test]
    fn record_larger_than_the_backlog_counts_and_is_not_kept() {
        let (backlog, _) = backlog(400);
        append(&backlog, b"a");
        let lsn = append(&backlog, &[b'x'; 1000]);
        assert_eq!(backlog.extent(), BacklogExtent { start: lsn, end: lsn });
        append(&backlog, b"b");
        assert_eq!(backlog.extent().start, lsn);
    }

    #[test]
    fn large_record_takes_its_memory_with_it() {
        const BYTES: usize = 1 << 20;
        let (backlog, _) = backlog(BYTES as u64);
        let empty = backlog.lock().memory_bytes();
        let mut reported = 0;
        let mut report = || {
            backlog.report_memory(|grown, shrunk| reported = reported + grown - shrunk);
            reported
        };
        assert_eq!(report(), empty);
        append(&backlog, &vec![b'x'; BYTES + 1]);
        assert_eq!(report(), empty, "dropped at once");
        append(&backlog, &vec![b'x'; BYTES - 200]);
        assert!(report() > empty);
        append(&backlog, &vec![b'x'; BYTES / 2]);
        append(&backlog, b"a");
        append(&backlog, &vec![b'x'; BYTES / 2]);
        append(&backlog, b"a");
        assert_eq!(report(), empty);
    }
}
