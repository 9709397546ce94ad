//! How bytes pass through one ring: one side writes frames, the other takes bytes out.
//!
//! The indices count bytes and only grow; where one lies in the ring is its lowest bits. A frame
//! is one word and its payload, filled up to whole words; frames wrap around the end of the ring
//! at any word. The bytes of a stream may be cut into frames anywhere.
//!
//! ```text
//! word 0      low half: bytes of payload, at least 1; high half: 0
//! words 1..   the payload; what fills the last word means nothing
//!
//! writer                                reader
//! head                (acquire)         tail                (acquire)
//! frames              (relaxed)         frames              (relaxed)
//! tail                (release)         head                (release)
//! ```
//! Each side keeps its own index in private memory and never reads it back. The other's index and
//! the frame headers are input: copied once, checked, and the copy is used. So a hostile side can
//! put any bytes into the stream, which it could anyway, or end the lane.

use std::sync::atomic::Ordering;

use arena::atomic_word::AtomicWord;

use super::lane_layout::LaneError;
use super::lane_memory::Cell;

/// The bytes of a frame header, and what a frame is a multiple of.
const WORD_BYTES: u64 = 8;
/// The least room in which a frame is begun: its header and a word.
const FRAME_BYTES_MIN: u64 = 2 * WORD_BYTES;

/// A ring as both sides see it.
pub struct Ring<'m, W, C> {
    /// The writer's index.
    pub tail: &'m W,
    /// The reader's index.
    pub head: &'m W,
    /// The content: a power of two of words.
    pub cells: &'m [C],
}

impl<W: AtomicWord, C: Cell> Ring<'_, W, C> {
    fn capacity(&self) -> u64 {
        self.cells.len() as u64 * WORD_BYTES
    }

    /// Returns the place of index `at`; none lies outside, whatever `at` is.
    #[inline(always)]
    fn place(&self, at: u64) -> usize {
        debug_assert!(self.cells.len().is_power_of_two(), "a ring is a power of two of words");
        (at / WORD_BYTES) as usize & (self.cells.len() - 1)
    }

    /// Writes `bytes` from index `at` on, around the end.
    #[inline]
    fn store(&self, at: u64, bytes: &[u8]) {
        let start = self.place(at);
        let before_end = (self.cells.len() - start) * WORD_BYTES as usize;
        let (first, rest) = bytes.split_at(before_end.min(bytes.len()));
        store_run(&self.cells[start..], first);
        store_run(self.cells, rest);
    }

    /// Reads into `bytes` from index `at` on, around the end.
    #[inline]
    fn load(&self, at: u64, bytes: &mut [u8]) {
        let start = self.place(at);
        let before_end = (self.cells.len() - start) * WORD_BYTES as usize;
        let (first, rest) = bytes.split_at_mut(before_end.min(bytes.len()));
        load_run(&self.cells[start..], first);
        load_run(self.cells, rest);
    }
}

/// The side that puts bytes in.
#[derive(Debug, Default)]
pub struct Writer {
    tail: u64,
    /// The tail that the reader sees: nobody has taken what lies behind it.
    published: u64,
    /// The head when it was last looked at.
    head: u64,
}

impl Writer {
    #[cfg(test)]
    pub(super) fn starting_at(index: u64) -> Writer {
        Writer { tail: index, published: index, head: index }
    }

    /// Writes as much of `pieces`, one behind the other, as there is room for; returns how many
    /// bytes that is.
    ///
    /// # Errors
    /// When the reader's index is none that it can have.
    pub fn write<W: AtomicWord, C: Cell>(
        &mut self,
        ring: &Ring<'_, W, C>,
        pieces: &[impl AsRef<[u8]>],
    ) -> Result<usize, LaneError> {
        let mut written = 0;
        'pieces: for piece in pieces {
            let mut rest = piece.as_ref();
            while !rest.is_empty() {
                let wanted = WORD_BYTES + padded(rest.len() as u64);
                let room = self.room(ring, wanted)?;
                if room < FRAME_BYTES_MIN {
                    break 'pieces;
                }
                let count = rest.len().min((room - WORD_BYTES) as usize);
                let (payload, later) = rest.split_at(count);
                ring.cells[ring.place(self.tail)].set(count as u64);
                ring.store(self.tail.wrapping_add(WORD_BYTES), payload);
                self.tail = self.tail.wrapping_add(WORD_BYTES + padded(count as u64));
                written += count;
                rest = later;
            }
        }
        if self.tail != self.published {
            // SYNC POINT: frames before the tail. Pairs with the load in `Reader::there`.
            ring.tail.store(self.tail, Ordering::Release);
            self.published = self.tail;
        }
        Ok(written)
    }

    /// Returns whether a frame can be begun.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn has_room<W: AtomicWord, C: Cell>(
        &mut self,
        ring: &Ring<'_, W, C>,
    ) -> Result<bool, LaneError> {
        Ok(self.room(ring, FRAME_BYTES_MIN)? >= FRAME_BYTES_MIN)
    }

    /// Returns the free bytes, looking at the reader's index only where there are not `wanted`.
    #[inline]
    fn room<W: AtomicWord, C: Cell>(
        &mut self,
        ring: &Ring<'_, W, C>,
        wanted: u64,
    ) -> Result<u64, LaneError> {
        let capacity = ring.capacity();
        let free = |head: u64, tail: u64| capacity.checked_sub(tail.wrapping_sub(head));
        let known = free(self.head, self.tail).expect("the head was checked");
        if known >= wanted {
            return Ok(known);
        }
        // SYNC POINT: taken before the head. Pairs with the store in `Reader::read`.
        let head = ring.head.load(Ordering::Acquire);
        // Between where it was and what was published: one that goes back would take away room that
        // has been told of.
        let is_head = head.is_multiple_of(WORD_BYTES)
            && head.wrapping_sub(self.head) <= self.published.wrapping_sub(self.head);
        let room = free(head, self.tail).filter(|_| is_head);
        let room = room.ok_or(LaneError::Head { found: head, tail: self.published })?;
        self.head = head;
        Ok(room)
    }
}

/// The side that takes bytes out.
#[derive(Debug, Default)]
pub struct Reader {
    head: u64,
    /// Bytes of the current frame that have not been taken.
    left: u64,
}

impl Reader {
    #[cfg(test)]
    pub(super) fn starting_at(index: u64) -> Reader {
        Reader { head: index, left: 0 }
    }

    /// Takes bytes out until `target` is full or nothing is there; returns how many.
    ///
    /// A frame that is taken in parts is so in whole words: up to 7 bytes of the target's end may
    /// stay unused though more is there.
    ///
    /// # Errors
    /// When the writer's index or a frame header is none that it can have written.
    pub fn read<W: AtomicWord, C: Cell>(
        &mut self,
        ring: &Ring<'_, W, C>,
        target: &mut [u8],
    ) -> Result<usize, LaneError> {
        let before = self.head;
        let mut there = self.there(ring)?;
        let mut filled = 0;
        loop {
            if self.left == 0 {
                if there == 0 || target.len() - filled < WORD_BYTES as usize {
                    break;
                }
                let header = ring.cells[ring.place(self.head)].get();
                there -= WORD_BYTES;
                // The high half is 0, or the length is out of any bound.
                if header == 0 || header > there {
                    return Err(LaneError::Frame { found: header, there });
                }
                self.head = self.head.wrapping_add(WORD_BYTES);
                self.left = header;
            }
            let room = (target.len() - filled) as u64;
            let count = if self.left <= room { self.left } else { room - room % WORD_BYTES };
            if count == 0 {
                break;
            }
            let end = filled + count as usize;
            ring.load(self.head, &mut target[filled..end]);
            self.head = self.head.wrapping_add(padded(count));
            there -= padded(count);
            self.left -= count;
            filled = end;
        }
        if self.head != before {
            // SYNC POINT: taken before the head. Pairs with the load in `Writer::room`.
            ring.head.store(self.head, Ordering::Release);
        }
        Ok(filled)
    }

    /// Returns an upper bound of the bytes that can be taken now; 0 when there are none.
    ///
    /// # Errors
    /// When the writer's index is none that it can have.
    #[inline]
    pub fn there<W: AtomicWord, C: Cell>(&self, ring: &Ring<'_, W, C>) -> Result<u64, LaneError> {
        // SYNC POINT: frames before the tail. Pairs with the store in `Writer::write`.
        let tail = ring.tail.load(Ordering::Acquire);
        let there = tail.wrapping_sub(self.head);
        // A tail that has gone back behind the current frame is none either.
        let is_tail = tail.is_multiple_of(WORD_BYTES)
            && there <= ring.capacity()
            && there >= padded(self.left);
        if is_tail { Ok(there) } else { Err(LaneError::Tail { found: tail, head: self.head }) }
    }
}

/// Returns `bytes` filled up to whole words.
#[inline(always)]
fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(WORD_BYTES)
}

/// Writes `bytes` to the first of `cells`.
#[inline]
fn store_run<C: Cell>(cells: &[C], bytes: &[u8]) {
    let (words, last) = bytes.as_chunks::<8>();
    for (cell, word) in cells.iter().zip(words) {
        cell.set(u64::from_le_bytes(*word));
    }
    if !last.is_empty() {
        let mut image = [0; 8];
        image[..last.len()].copy_from_slice(last);
        cells[words.len()].set(u64::from_le_bytes(image));
    }
}

/// Reads into `bytes` from the first of `cells`.
#[inline]
fn load_run<C: Cell>(cells: &[C], bytes: &mut [u8]) {
    let (words, last) = bytes.as_chunks_mut::<8>();
    let count = words.len();
    for (cell, word) in cells.iter().zip(words) {
        *word = cell.get().to_le_bytes();
    }
    if !last.is_empty() {
        let image = cells[count].get().to_le_bytes();
        last.copy_from_slice(&image[..last.len()]);
    }
}
