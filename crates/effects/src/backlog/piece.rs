//! The memory of a piece of the backlog: records one after the other, and their checksum.
//!
//! A log has a disk take records from where they are, instead of copying them. A disk takes whole
//! blocks, so that a byte of the stream at the same place in each block of memory, from piece to
//! piece, can have the same place in each block of a file. And whoever writes the records works
//! out their checksum, a few KiB at a time, while they are in the cache of its processor: for the
//! log's thread each line would come from there.

use std::ops::Range;

use base::{Lsn, crc32c};
use sys::wide_bytes::WideBytes;

use crate::record::Record;

/// What any disk takes, in bytes: a byte of a large piece lies where its position is modulo this.
pub const BLOCK_BYTES: usize = 4096;
/// What a piece is filled after that is large: a shorter one is copied all the same.
const LARGE_BYTES_MIN: usize = 64 * 1024;
/// Room behind a piece for the record that fills it, so that a usual one does not move the piece;
/// no more than the piece has.
const RECORD_BYTES_USUAL: usize = 32 * 1024;
/// So many bytes are added to the checksum at a time: what is in the nearest cache.
const SUMMED_BYTES: usize = 4 * 1024;
/// A piece whose checksum would have more to be added at once has none: its last record may have
/// moved it, and is not in the cache any more.
const SUMMED_BYTES_MAX: usize = SUMMED_BYTES + RECORD_BYTES_USUAL;

/// Records one after the other.
#[derive(Default)]
pub(super) struct PieceMemory {
    bytes: WideBytes,
    /// Where the first record begins in them.
    begin: usize,
    /// How much of them is in the checksum, with what is before the first record.
    summed: usize,
    /// At which length more is added to the checksum.
    sum_at: usize,
    checksum: u32,
}

impl PieceMemory {
    /// Returns an empty piece that is full behind `piece_bytes`.
    pub(super) fn new(piece_bytes: usize) -> PieceMemory {
        PieceMemory::of(WideBytes::with_capacity(capacity_of(piece_bytes)))
    }

    /// Returns `count` pieces to begin with, touched now: a shortage shows at the start, and no
    /// write waits for a page of theirs later. A disk takes more at once from memory that is side
    /// by side. One that a large record moves is replaced by [`PieceMemory::new`].
    pub(super) fn touched(count: usize, piece_bytes: usize) -> Vec<PieceMemory> {
        let touched = |mut bytes: WideBytes| {
            // What has more counts as moved by a large record.
            debug_assert_eq!(bytes.capacity(), capacity_of(piece_bytes));
            // Not zeroes, which the system would only promise.
            bytes.resize(bytes.capacity(), 1);
            PieceMemory::of(bytes)
        };
        let all = WideBytes::several(count, capacity_of(piece_bytes));
        all.into_iter().map(touched).collect()
    }

    fn of(bytes: WideBytes) -> PieceMemory {
        PieceMemory { bytes, ..PieceMemory::default() }
    }

    /// Empties it for records that begin at `position` of the stream, whose checksum is worked out
    /// where `is_summed`; it is full behind `piece_bytes`.
    pub(super) fn begin(&mut self, position: u64, piece_bytes: usize, is_summed: bool) {
        self.bytes.clear();
        let is_large = piece_bytes >= LARGE_BYTES_MIN;
        if is_large {
            let place = self.bytes.as_ptr().addr();
            let before = (position as usize).wrapping_sub(place) % BLOCK_BYTES;
            self.bytes.resize(before, 0);
        }
        (self.begin, self.summed, self.checksum) = (self.bytes.len(), self.bytes.len(), 0);
        self.sum_at = if is_summed && is_large { self.begin + SUMMED_BYTES } else { usize::MAX };
    }

    /// Has no checksum of its records any more: nobody will take all of them at once.
    pub(super) fn give_checksum_up(&mut self) {
        self.sum_at = usize::MAX;
    }

    /// Appends `record`, behind those up to `before`; returns its LSN.
    #[inline]
    pub(super) fn append(&mut self, record: &Record<'_>, before: Lsn) -> Lsn {
        let lsn = record.encode_into(before, &mut self.bytes);
        if self.bytes.len() >= self.sum_at {
            self.sum();
        }
        lsn
    }

    /// Returns the records.
    #[inline]
    pub(super) fn records(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    /// Returns how many bytes they have.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.begin
    }

    /// Returns the memory that it takes.
    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns where the next record will be: only ever an address.
    #[inline]
    pub(super) fn next_place(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_add(self.bytes.len())
    }

    /// Returns the CRC32C of the records in `range`, if it is known: of all of them, once the piece
    /// has been [finished](PieceMemory::finish).
    pub(super) fn checksum_of(&self, range: &Range<usize>) -> Option<u32> {
        (*range == (0..self.len()) && self.summed == self.bytes.len()).then_some(self.checksum)
    }

    /// Adds what is left to the checksum. Nothing is appended any more.
    pub(super) fn finish(&mut self) {
        if self.is_summed() {
            self.sum();
        }
    }

    /// Returns whether the checksum is worked out.
    pub(super) fn is_summed(&self) -> bool {
        self.sum_at < usize::MAX
    }

    #[inline(never)]
    fn sum(&mut self) {
        let rest = &self.bytes[self.summed..];
        if rest.len() > SUMMED_BYTES_MAX {
            return self.give_checksum_up();
        }
        self.checksum = crc32c::append(self.checksum, rest);
        self.summed = self.bytes.len();
        self.sum_at = self.summed + SUMMED_BYTES;
    }

    /// Empties it, and gives the memory up that an unusually large record has taken, for that of a
    /// piece of `piece_bytes`.
    pub(super) fn shrink(&mut self, piece_bytes: usize) {
        self.bytes.clear();
        self.begin = 0;
        if self.capacity() > capacity_of(piece_bytes) {
            *self = PieceMemory::new(piece_bytes);
        }
    }
}

/// Returns the memory of a piece of `piece_bytes`: whole blocks where it is large.
fn capacity_of(piece_bytes: usize) -> usize {
    let bytes = piece_bytes + RECORD_BYTES_USUAL.min(piece_bytes);
    match piece_bytes >= LARGE_BYTES_MIN {
        true => (BLOCK_BYTES + bytes).next_multiple_of(BLOCK_BYTES),
        false => bytes,
    }
}
