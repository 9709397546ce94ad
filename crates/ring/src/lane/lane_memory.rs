//! What the protocols of a lane are written over: shared memory, the heap, or a model checker's.

use std::sync::atomic::{AtomicU64, Ordering};

use arena::atomic_word::AtomicWord;

use super::doorbell::NEWS;
use super::lane_layout::{
    HEADER_WORDS, LaneShape, MAGIC, MAGIC_AT, REPLY_BYTES_AT, REQUEST_BYTES_AT, SERVER_STATE_AT,
};

/// A word of the header.
pub trait SwapWord: AtomicWord {
    /// Replaces the word and returns what it was, in one step.
    fn swap(&self, value: u64, order: Ordering) -> u64;
}

impl SwapWord for AtomicU64 {
    #[inline(always)]
    fn swap(&self, value: u64, order: Ordering) -> u64 {
        AtomicU64::swap(self, value, order)
    }
}

/// A word of a ring: two sides may write and read it at once, and the indices of the ring say
/// when its content means something.
pub trait Cell {
    /// Returns the word.
    fn get(&self) -> u64;

    /// Replaces the word.
    fn set(&self, value: u64);
}

impl Cell for AtomicU64 {
    #[inline(always)]
    fn get(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set(&self, value: u64) {
        self.store(value, Ordering::Relaxed);
    }
}

/// The memory of a lane. Another process may change any of it at any time.
pub trait LaneMemory {
    /// A word of the header.
    type Word: SwapWord;
    /// A word of a ring.
    type Cell: Cell;

    /// Returns the words before the rings, always the same: at least as many as `lane_layout.rs`
    /// has.
    fn header(&self) -> &[Self::Word];

    /// Returns the request ring: a power of two of words, always the same.
    fn requests(&self) -> &[Self::Cell];

    /// Returns the reply ring in the same way.
    fn replies(&self) -> &[Self::Cell];
}

impl<M: LaneMemory> LaneMemory for std::sync::Arc<M> {
    type Word = M::Word;
    type Cell = M::Cell;

    fn header(&self) -> &[M::Word] {
        (**self).header()
    }

    fn requests(&self) -> &[M::Cell] {
        (**self).requests()
    }

    fn replies(&self) -> &[M::Cell] {
        (**self).replies()
    }
}

/// A lane on the heap, between threads of one process: for tests and for miri.
pub struct HeapLane {
    words: Box<[AtomicU64]>,
    request_end: usize,
}

impl HeapLane {
    /// Returns a lane that nobody has used.
    pub fn new(shape: LaneShape) -> HeapLane {
        let words: Box<[AtomicU64]> =
            (0..shape.memory_bytes() / 8).map(|_| AtomicU64::new(0)).collect();
        begin(&words, shape);
        let request_end = HEADER_WORDS + shape.request_bytes() as usize / 8;
        HeapLane { words, request_end }
    }

    /// Returns all words, as a hostile process would write them.
    pub fn words(&self) -> &[AtomicU64] {
        &self.words
    }
}

impl LaneMemory for HeapLane {
    type Word = AtomicU64;
    type Cell = AtomicU64;

    fn header(&self) -> &[AtomicU64] {
        &self.words[..HEADER_WORDS]
    }

    fn requests(&self) -> &[AtomicU64] {
        &self.words[HEADER_WORDS..self.request_end]
    }

    fn replies(&self) -> &[AtomicU64] {
        &self.words[self.request_end..]
    }
}

/// Writes the header of a lane that begins; the rest of its memory is zero.
pub(super) fn begin(words: &[AtomicU64], shape: LaneShape) {
    words[REQUEST_BYTES_AT].store(shape.request_bytes(), Ordering::Relaxed);
    words[REPLY_BYTES_AT].store(shape.reply_bytes(), Ordering::Relaxed);
    // No worker serves the lane yet: the first request wakes the one that will.
    words[SERVER_STATE_AT].store(NEWS, Ordering::Relaxed);
    words[MAGIC_AT].store(MAGIC, Ordering::Relaxed);
}
