//! The latest records, kept in memory for consumers: each has a position of its own.
//!
//! They lie in pieces: a record is encoded once, in one piece, after the previous one; a piece that
//! is full is never changed again, so that a consumer may share it instead of copying it. When a
//! new piece begins the oldest ones are dropped that are not needed to keep half of the configured
//! bytes and more; their memory serves again. A record that makes a piece larger than its share is
//! kept in full. A record larger than the whole is not kept: a consumer that needs it needs a copy
//! of everything anyway.
//!
//! For a consumer that has to see every record, such as a log, records are kept until it has read
//! them, and where it is too far behind no write is admitted until it has caught up.

mod piece;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::Lsn;

use crate::admission::{Admission, WriteRefusal};
use crate::record::{EffectSink, Record, records};
pub use piece::BLOCK_BYTES;
use piece::PieceMemory;

/// The least that a backlog may be told to keep, in bytes.
pub const BACKLOG_BYTES_MIN: u64 = 2;

/// The most bytes after which a new piece begins: what a processor's own cache has room for.
const PIECE_BYTES_MAX: usize = 256 * 1024;
/// How many pieces of a small backlog there are at most before new ones are larger: a consumer that
/// is waited for may be much further behind than the backlog is long.
const SMALL_PIECES_MAX: usize = 64;
/// The bytes after which a new piece begins then.
const PIECE_BYTES_LAGGING: usize = 64 * 1024;

/// Keeps the bytes of the latest records. An LSN is the number of bytes up to a record's end.
pub struct Backlog {
    kept: Mutex<Kept>,
    /// The end of the records, for those who look without the lock.
    end: AtomicU64,
    /// Where the next record begins in memory: only ever an address.
    next_place: AtomicPtr<u8>,
    bytes: usize,
    piece_bytes: usize,
    /// What all pieces take together where none is too large and no consumer is behind.
    memory_bytes_usual: u64,
    admission: Arc<Admission>,
    /// The memory that was reported last.
    reported_bytes: Mutex<u64>,
    /// The memory may have changed since.
    has_unreported: AtomicBool,
}

struct Kept {
    /// What records are appended to.
    newest: PieceMemory,
    /// The full pieces, the oldest first.
    full: VecDeque<Piece>,
    /// Empty ones, to be filled again.
    empty: Vec<PieceMemory>,
    /// The memory of all of these but the newest.
    other_bytes: u64,
    /// The bytes after which the next piece begins.
    piece_bytes: usize,
    /// The end of the last record that is kept for those alone who are waited for: it is larger
    /// than the whole.
    oversized_end: Option<u64>,
    end: u64,
    /// The end of the records behind which it is to be looked whether a consumer is too far behind.
    look_at: u64,
    /// The consumers that are waited for.
    required: Vec<RequiredConsumer>,
    next_id: u64,
}

/// A full piece.
struct Piece {
    /// The position of its first byte.
    start: u64,
    memory: Arc<PieceMemory>,
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

/// Whole records, in their order: full pieces of the backlog, or a copy of what is in the newest.
#[derive(Default)]
pub struct SharedRecords {
    shared: Vec<(Arc<PieceMemory>, Range<usize>)>,
    copied: Vec<u8>,
}

impl Backlog {
    /// Returns an empty backlog of `bytes`, which goes on behind `start` and refuses writes by
    /// `admission` where somebody who is waited for is too far behind.
    ///
    /// # Panics
    /// When `bytes` is below [`BACKLOG_BYTES_MIN`].
    pub fn new(bytes: u64, start: Lsn, admission: Arc<Admission>) -> Backlog {
        assert!(bytes >= BACKLOG_BYTES_MIN, "a backlog of {bytes} bytes keeps nothing");
        let bytes = usize::try_from(bytes).expect("an address has 64 bits");
        let piece_bytes = (bytes / 4).clamp(1, PIECE_BYTES_MAX);
        let piece_count = bytes.div_ceil(piece_bytes);
        let mut empty = PieceMemory::touched(piece_count, piece_bytes);
        let mut newest = empty.pop().expect("there is one piece at least");
        newest.begin(start.0, piece_bytes, false);
        let kept = Kept {
            newest,
            full: VecDeque::new(),
            other_bytes: empty.iter().map(|piece| piece.capacity() as u64).sum(),
            empty,
            piece_bytes,
            oversized_end: None,
            end: start.0,
            look_at: u64::MAX,
            required: Vec::new(),
            next_id: 0,
        };
        let memory_bytes_usual = kept.memory_bytes();
        Backlog {
            kept: Mutex::new(kept),
            end: AtomicU64::new(start.0),
            next_place: AtomicPtr::default(),
            bytes,
            piece_bytes,
            memory_bytes_usual,
            admission,
            reported_bytes: Mutex::new(0),
            has_unreported: AtomicBool::new(true),
        }
    }

    /// Returns what the backlog holds.
    pub fn extent(&self) -> BacklogExtent {
        let kept = self.lock();
        BacklogExtent { start: Lsn(kept.start()), end: Lsn(kept.end) }
    }

    /// Returns the LSN of the latest record, or of one shortly before: costs one load.
    #[inline]
    pub fn latest(&self) -> Lsn {
        Lsn(self.end.load(Ordering::Relaxed))
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
        let mut kept = self.lock();
        let (id, position) = (kept.next_id, kept.end);
        kept.next_id += 1;
        kept.required.push(RequiredConsumer { id, position, lag_bytes_max });
        if kept.newest.len() == 0 {
            // Else this consumer begins in the middle of the piece, and never takes all of it.
            let piece_bytes = kept.piece_bytes;
            kept.newest.begin(position, piece_bytes, true);
        }
        self.settle_admission(&mut kept);
        drop(kept);
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

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("encoding a record does not panic")
    }

    /// Refuses or admits writes by how far behind those are who are waited for, and notes how far
    /// the records may come before that is to be looked at again.
    fn settle_admission(&self, kept: &mut Kept) {
        let lag = |consumer: &RequiredConsumer| kept.end - consumer.position;
        let is_behind = |consumer: &RequiredConsumer| lag(consumer) > consumer.lag_bytes_max;
        // Twice as near as it has to be, so that writes do not stop and go with each record.
        let is_near = |consumer: &RequiredConsumer| lag(consumer) <= consumer.lag_bytes_max / 2;
        if kept.required.iter().any(is_behind) {
            self.admission.refuse(WriteRefusal::LogFull);
        } else if kept.required.iter().all(is_near) {
            self.admission.allow(WriteRefusal::LogFull);
        }
        let limits = kept.required.iter().map(|it| it.position.saturating_add(it.lag_bytes_max));
        kept.look_at = limits.min().unwrap_or(u64::MAX);
    }

    /// Begins a new piece where the newest one has anything, and drops what need not be kept.
    #[cold]
    fn begin_piece(&self, kept: &mut Kept) {
        if kept.newest.len() > 0 {
            kept.piece_bytes = match kept.full.len() < SMALL_PIECES_MAX {
                true => self.piece_bytes,
                false => self.piece_bytes.max(PIECE_BYTES_LAGGING),
            };
            let fresh = kept.pop_empty();
            let mut fresh = fresh.unwrap_or_else(|| PieceMemory::new(kept.piece_bytes));
            fresh.begin(kept.end, kept.piece_bytes, !kept.required.is_empty());
            let mut memory = std::mem::replace(&mut kept.newest, fresh);
            memory.finish();
            kept.other_bytes += memory.capacity() as u64;
            let start = kept.end - memory.len() as u64;
            kept.full.push_back(Piece { start, memory: memory.into() });
        }
        let bytes = self.bytes as u64;
        // So much that with the newest piece it comes to what was asked for; half of that where
        // pieces are large because of their records.
        let least = bytes - (2 * self.piece_bytes as u64).min(bytes);
        while let Some(oldest) = kept.full.front() {
            let end = oldest.end();
            let is_wanted = kept.required.iter().any(|consumer| consumer.position < end);
            let (all, rest) = (kept.end - oldest.start, kept.end - end);
            let is_needed = rest < least && (all <= bytes || rest < bytes / 2);
            if is_wanted || is_needed {
                break;
            }
            self.drop_oldest(kept);
        }
        while kept.memory_bytes() > self.memory_bytes_usual && kept.pop_empty().is_some() {}
        self.has_unreported.store(true, Ordering::Relaxed);
    }

    /// Drops the oldest piece; its memory becomes an empty one where there are too few.
    fn drop_oldest(&self, kept: &mut Kept) {
        let Some(oldest) = kept.full.pop_front() else { return };
        kept.other_bytes -= oldest.memory.capacity() as u64;
        // Where a consumer shares it still, the memory is its own now.
        let Some(mut memory) = Arc::into_inner(oldest.memory) else { return };
        memory.shrink(self.piece_bytes);
        if kept.memory_bytes() + memory.capacity() as u64 <= self.memory_bytes_usual {
            kept.other_bytes += memory.capacity() as u64;
            kept.empty.push(memory);
        }
    }

    /// Forgets all records; the end stays where it is.
    fn forget(&self, kept: &mut Kept) {
        self.begin_piece(kept);
        while !kept.full.is_empty() {
            self.drop_oldest(kept);
        }
    }

    /// Notes that those who are waited for have read more, or are fewer.
    fn note_progress(&self, kept: &mut Kept) {
        self.settle_admission(kept);
        let Some(end) = kept.oversized_end else { return };
        if kept.required.iter().any(|consumer| consumer.position < end) {
            return;
        }
        kept.oversized_end = None;
        if kept.end - (kept.newest.len() as u64) < end {
            self.begin_piece(kept);
        }
        while kept.full.front().is_some_and(|oldest| oldest.start < end) {
            self.drop_oldest(kept);
        }
        self.has_unreported.store(true, Ordering::Relaxed);
    }
}

impl Consumer {
    /// Returns the LSN of the last record that was read, or behind which reading began.
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// Returns the LSN of the latest record, read or not.
    pub fn latest(&self) -> Lsn {
        self.backlog.latest()
    }

    /// Appends the next records to `out`, whole ones of at most `bytes_max` together, but one at
    /// least where there is any; returns the bytes appended.
    ///
    /// # Errors
    /// When the next record is not kept any more; the position stays.
    pub fn read(&mut self, bytes_max: usize, out: &mut Vec<u8>) -> Result<usize, Lost> {
        let mut kept = self.backlog.lock();
        let Some(bytes) = kept.from(self.position.0) else {
            return Err(Lost { oldest: Lsn(kept.start()) });
        };
        let taken = whole_records(bytes, bytes_max);
        out.extend_from_slice(&bytes[..taken]);
        self.position.0 += taken as u64;
        if let Some(id) = self.required {
            kept.note_position(id, self.position.0);
            self.backlog.note_progress(&mut kept);
        }
        Ok(taken)
    }

    /// As [`Consumer::read`], in place of what `records` has, and without copying what is in full
    /// pieces; what is behind them is left for the next call. Where this consumer is waited for,
    /// what it takes so counts as read only once it says that it is [done](Consumer::be_done).
    ///
    /// # Errors
    /// When the next record is not kept any more; the position stays.
    pub fn share(&mut self, bytes_max: usize, records: &mut SharedRecords) -> Result<(), Lost> {
        records.clear();
        let mut kept = self.backlog.lock();
        if kept.from(self.position.0).is_none() {
            return Err(Lost { oldest: Lsn(kept.start()) });
        }
        if kept.newest.len() >= kept.piece_bytes {
            // Full already: its last record may be as large as a value can be.
            self.backlog.begin_piece(&mut kept);
        }
        let mut taken = 0;
        for piece in kept.full_from(self.position.0) {
            let at = (self.position.0 - piece.start) as usize;
            let rest = &piece.memory.records()[at..];
            // A part of a piece only where that is all: to find it each record is looked at.
            if taken > 0 && taken + rest.len() > bytes_max {
                break;
            }
            let count = whole_records(rest, bytes_max);
            records.shared.push((Arc::clone(&piece.memory), at..at + count));
            taken += count;
            self.position.0 += count as u64;
            if count < rest.len() {
                break;
            }
        }
        if taken == 0 {
            // The newest piece goes on to be filled, so that it cannot be shared.
            let rest = kept.from(self.position.0).expect("it is kept");
            let count = whole_records(rest, bytes_max);
            records.copied.extend_from_slice(&rest[..count]);
            self.position.0 += count as u64;
            if self.required.is_some() && count > 0 {
                kept.newest.give_checksum_up();
            }
        }
        Ok(())
    }

    /// Says that nothing is needed any more of what was taken by [`Consumer::share`]: its memory
    /// may serve again.
    pub fn be_done(&mut self, records: &mut SharedRecords) {
        records.clear();
        let Some(id) = self.required else { return };
        let mut kept = self.backlog.lock();
        kept.note_position(id, self.position.0);
        self.backlog.note_progress(&mut kept);
    }
}

impl SharedRecords {
    /// Returns how many bytes they have.
    pub fn byte_count(&self) -> usize {
        self.shared.iter().map(|(_, range)| range.len()).sum::<usize>() + self.copied.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.copied.is_empty()
    }

    /// Returns their bytes, in pieces that are none of them empty, each with its CRC32C where that
    /// is known.
    pub fn pieces(&self) -> impl Iterator<Item = (&[u8], Option<u32>)> + Clone {
        let shared = self
            .shared
            .iter()
            .map(|(memory, range)| (&memory.records()[range.clone()], memory.checksum_of(range)));
        shared.chain((!self.copied.is_empty()).then_some((self.copied.as_slice(), None)))
    }

    fn clear(&mut self) {
        self.shared.clear();
        self.copied.clear();
        // One record may have been larger than any piece.
        self.copied.shrink_to(PIECE_BYTES_MAX);
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let Some(id) = self.required else { return };
        let mut kept = self.backlog.lock();
        kept.required.retain(|consumer| consumer.id != id);
        self.backlog.note_progress(&mut kept);
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
    for record in records(bytes) {
        let length = record.expect("the backlog has whole records").bytes().len();
        if taken > 0 && taken + length > bytes_max {
            break;
        }
        taken += length;
    }
    taken
}

impl Piece {
    fn end(&self) -> u64 {
        self.start + self.memory.len() as u64
    }
}

impl Kept {
    /// Returns the position of the oldest byte.
    fn start(&self) -> u64 {
        self.full.front().map_or(self.end - self.newest.len() as u64, |oldest| oldest.start)
    }

    /// Returns the full pieces that have anything behind `position`.
    fn full_from(&self, position: u64) -> impl Iterator<Item = &Piece> {
        let first = self.full.partition_point(|piece| piece.end() <= position);
        self.full.range(first..)
    }

    /// Returns what is kept in one piece from `position` on; none where not all of it is.
    fn from(&self, position: u64) -> Option<&[u8]> {
        if position < self.start() {
            return None;
        }
        let (start, bytes) = match self.full_from(position).next() {
            Some(piece) => (piece.start, piece.memory.records()),
            None => (self.end - self.newest.len() as u64, self.newest.records()),
        };
        bytes.get((position - start) as usize..)
    }

    /// Notes that a consumer that is waited for has read up to `position`.
    fn note_position(&mut self, id: u64, position: u64) {
        let this = self.required.iter_mut().find(|consumer| consumer.id == id);
        this.expect("it is registered").position = position;
    }

    /// Takes an empty piece, if there is one.
    fn pop_empty(&mut self) -> Option<PieceMemory> {
        let piece = self.empty.pop()?;
        self.other_bytes -= piece.capacity() as u64;
        Some(piece)
    }

    fn memory_bytes(&self) -> u64 {
        self.other_bytes + self.newest.capacity() as u64
    }
}

impl EffectSink for Backlog {
    fn append(&self, record: &Record<'_>) -> Lsn {
        let mut kept = self.lock();
        if kept.newest.len() >= kept.piece_bytes {
            self.begin_piece(&mut kept);
        }
        let kept = &mut *kept;
        let (before, capacity) = (kept.end, kept.newest.capacity());
        let lsn = kept.newest.append(record, Lsn(before));
        kept.end = lsn.0;
        self.end.store(lsn.0, Ordering::Relaxed);
        self.next_place.store(kept.newest.next_place(), Ordering::Relaxed);
        if lsn.0 > kept.look_at {
            self.settle_admission(kept);
        }
        if kept.newest.capacity() != capacity {
            self.has_unreported.store(true, Ordering::Relaxed);
        }
        if lsn.0 - before > self.bytes as u64 {
            match kept.required.is_empty() {
                true => self.forget(kept),
                false => kept.oversized_end = Some(lsn.0),
            }
        }
        lsn
    }

    fn next_place(&self) -> *const u8 {
        self.next_place.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use base::{DatabaseIndex, UnixMs};

    use super::*;
    use crate::{Change, Effect, EventClass, Expiry, RecordHeader, RecordView};

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
    fn shared_records_are_those_that_are_read_and_keep_their_memory_until_they_are_done() {
        const BYTES: usize = 4_000;
        let (backlog, admission) = backlog(BYTES as u64);
        let mut log = backlog.required_consumer(20_000);
        let mut reader = backlog.required_consumer(u64::MAX);
        let (mut shared, mut taken, mut read_bytes) = (SharedRecords::default(), vec![], vec![]);
        let mut number = 0;
        for bytes_max in (0..6_000).step_by(7) {
            for _ in 0..number % 40 {
                number += 1;
                append(&backlog, &vec![b'v'; number % 300]);
            }
            number += 1;
            let before = log.position();
            log.share(bytes_max, &mut shared).unwrap();
            let pieces: Vec<u8> = shared.pieces().flat_map(|(piece, _)| piece).copied().collect();
            assert!(shared.pieces().all(|(piece, _)| !piece.is_empty()));
            assert_eq!(pieces.len(), shared.byte_count());
            assert_eq!(shared.is_empty(), before == backlog.latest(), "there is something to take");
            assert_eq!(log.position().0 - before.0, pieces.len() as u64);
            let first = RecordHeader::read(&pieces).map_or(0, |header| header.length as usize);
            assert!(pieces.len() <= bytes_max.max(first));
            taken.extend_from_slice(&pieces);
            let lag = |consumer: &Consumer| backlog.latest().0 - consumer.position().0;
            assert!(backlog.extent().start <= before, "it is kept while it is written");
            log.be_done(&mut shared);
            assert!(lag(&log) <= 20_000 || admission.refused().is_some());
        }
        while reader.read(1_000, &mut read_bytes).unwrap() > 0 {}
        assert!(read_bytes.starts_with(&taken));
        assert!(taken.len() > 100_000, "{} bytes were taken", taken.len());
        drop((reader, log));
        append(&backlog, &vec![b'v'; BYTES]);
        append(&backlog, b"x");
        let extent = backlog.extent();
        assert!(extent.end.0 - extent.start.0 < 3 * BYTES as u64);
    }

    #[test]
    fn full_pieces_have_their_checksum_and_lie_in_blocks_as_in_the_stream() {
        let (backlog, _) = backlog(1 << 20);
        let value = |number: usize| vec![number as u8; 1 + number * 37 % 900];
        for number in 0..300 {
            append(&backlog, &value(number));
        }
        let mut log = backlog.required_consumer(u64::MAX);
        let (mut shared, mut known, mut unknown) = (SharedRecords::default(), 0, Vec::new());
        for number in 0..9_000 {
            append(&backlog, &value(number));
            if number == 4_000 {
                append(&backlog, &vec![b'x'; 700_000]);
            }
            if number % 1_000 < 999 {
                continue;
            }
            let mut position = log.position().0 as usize;
            log.share(usize::MAX, &mut shared).unwrap();
            for (piece, checksum) in shared.pieces() {
                match checksum {
                    Some(checksum) => {
                        assert_eq!(checksum, base::crc32c::of(piece));
                        assert_eq!(piece.as_ptr().addr() % 4096, position % 4096);
                        known += 1;
                    }
                    None => unknown.push(piece.len()),
                }
                position += piece.len();
            }
            log.be_done(&mut shared);
        }
        assert!(known > 8, "{known} checksums are known");
        // What was there before the log is a part of a piece; one has a record that is too long.
        assert!(matches!(unknown[..], [_, long] if long > 700_000), "{unknown:?}");
        // A later piece is not taken in part, and one of which a part is taken has no checksum.
        for number in 0..4_000 {
            append(&backlog, &value(number));
        }
        log.share(700_000, &mut shared).unwrap();
        let lengths: Vec<usize> = shared.pieces().map(|(piece, _)| piece.len()).collect();
        assert!(matches!(lengths[..], [_, second] if second > 250_000), "{lengths:?}");
        while log.position() < backlog.latest() {
            log.be_done(&mut shared);
            log.share(usize::MAX, &mut shared).unwrap();
        }
        log.be_done(&mut shared);
        let kept = backlog.lock();
        assert!(kept.newest.len() > 0 && !kept.newest.is_summed());
        drop(kept);
        for number in 0..2_000 {
            append(&backlog, &value(number));
        }
        log.share(usize::MAX, &mut shared).unwrap();
        let are_known: Vec<bool> = shared.pieces().map(|(_, sum)| sum.is_some()).collect();
        assert!(matches!(are_known[..], [false, true, ..]), "{are_known:?}");
        drop(log);
        for number in 0..3_000 {
            append(&backlog, &value(number));
        }
        let mut reader = backlog.consumer_from(backlog.extent().start).unwrap();
        reader.share(usize::MAX, &mut shared).unwrap();
        let last = shared.pieces().last().expect("there are pieces");
        assert_eq!(last.1, None, "nobody wants checksums any more");
    }

    #[test]
    fn full_piece_is_shared_though_nothing_has_come_behind_it() {
        let (backlog, _) = backlog(8 << 20);
        let mut log = backlog.required_consumer(8 << 20);
        let mut shared = SharedRecords::default();
        let behind = append(&backlog, &[b'v'; 1 << 20]);
        log.share(usize::MAX, &mut shared).unwrap();
        assert_eq!((log.position(), shared.copied.len()), (behind, 0));
        assert!(shared.byte_count() > 1 << 20);
        log.be_done(&mut shared);
        let behind = append(&backlog, b"x");
        log.share(usize::MAX, &mut shared).unwrap();
        assert_eq!(log.position(), behind);
        assert!(!shared.copied.is_empty(), "it goes on to be filled");
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
        assert!(report() <= empty, "dropped at once");
        append(&backlog, &vec![b'x'; BYTES - 200]);
        assert!(report() > empty);
        append(&backlog, &vec![b'x'; BYTES / 2]);
        append(&backlog, b"a");
        append(&backlog, &vec![b'x'; BYTES / 2]);
        for _ in 0..10 {
            append(&backlog, &vec![b'x'; BYTES / 8]);
        }
        assert!(report() <= empty);
    }

    #[test]
    fn record_larger_than_the_backlog_is_kept_until_those_who_are_waited_for_have_it() {
        const BYTES: usize = 1 << 20;
        for appends_more in [false, true] {
            let (backlog, _) = backlog(BYTES as u64);
            let mut reported = 0;
            let mut report = || {
                backlog.report_memory(|grown, shrunk| reported = reported + grown - shrunk);
                reported
            };
            let empty = report();
            let (mut log, mut other) =
                (backlog.required_consumer(u64::MAX), backlog.required_consumer(u64::MAX));
            append(&backlog, b"a");
            append(&backlog, &vec![b'x'; 20 * BYTES]);
            let expected: &[&str] = if appends_more { &["x"] } else { &[] };
            for value in expected {
                append(&backlog, value.as_bytes());
            }
            let mut shared = SharedRecords::default();
            for consumer in [&mut log, &mut other] {
                assert!(report() > 20 * empty.min(BYTES as u64), "one has not read it");
                while consumer.position() < backlog.latest() {
                    consumer.share(1 << 30, &mut shared).unwrap();
                    consumer.be_done(&mut shared);
                }
            }
            assert!(report() <= empty);
            let mut reader = backlog.consumer_from(backlog.extent().start).unwrap();
            assert_eq!(read(&mut reader, 1 << 20).unwrap(), expected);
        }
    }

    /// A consumer may be further behind than the backlog is long by any factor.
    #[test]
    fn memory_of_a_small_backlog_is_near_what_it_keeps() {
        for bytes in [2, 4_096, 100_000] {
            let (backlog, _) = backlog(bytes);
            assert!(backlog.lock().memory_bytes() <= 2 * bytes + 2);
            let log = backlog.required_consumer(u64::MAX);
            while backlog.latest().0 < 4 << 20 {
                append(&backlog, &[b'x'; 100]);
            }
            let kept = backlog.lock();
            assert!(kept.memory_bytes() <= 2 * kept.end + 100_000, "{} bytes", kept.memory_bytes());
            assert!(kept.full.len() < 200, "{} pieces", kept.full.len());
            let full: usize = kept.full.iter().map(|piece| piece.memory.capacity()).sum();
            let empty: usize = kept.empty.iter().map(PieceMemory::capacity).sum();
            assert_eq!(kept.memory_bytes() as usize, full + empty + kept.newest.capacity());
            drop(kept);
            drop(log);
            append(&backlog, &[b'x'; 70_000]);
            append(&backlog, b"x");
            append(&backlog, &[b'x'; 70_000]);
            append(&backlog, b"x");
            let kept = backlog.lock();
            assert!(kept.memory_bytes() < 500_000, "{} bytes", kept.memory_bytes());
        }
    }
}
