//! Index memory: power-of-two chunks for directories, buckets and descriptors.
//!
//! It is type-stable: a chunk that is freed is only ever used for the index again, so that a reader
//! with a stale reference finds index words, never bytes of a value.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::atomic_copy::store_zeroes;
use crate::layout::PAGE_BYTES;
use crate::mapped_range::{LimitPolicy, MappedRange, NeedRoom, Region};
use crate::sequence;

/// The smallest chunk: 512 bytes.
const CHUNK_LOG2_MIN: u32 = 9;
/// The chunk of which smaller ones are cut.
const PAGE_LOG2: u32 = PAGE_BYTES.trailing_zeros();
/// The largest chunk: 4 GiB, a directory for 2^29 blocks of buckets.
const CHUNK_LOG2_MAX: u32 = 32;

/// Hands out zeroed chunks of `2^log2` bytes of the index region.
pub(crate) struct IndexPool {
    memory: Arc<MappedRange>,
    /// Free chunks by size, last in first out.
    free: [Vec<u64>; (CHUNK_LOG2_MAX + 1) as usize],
    next: u64,
    committed_end: u64,
    region_end: u64,
    used_bytes: u64,
}

impl IndexPool {
    /// Starts behind the root, whose segments are committed.
    pub fn new(memory: Arc<MappedRange>, root_bytes: u64, region_end: u64) -> IndexPool {
        let committed_end = root_bytes.next_multiple_of(memory.segment_bytes());
        IndexPool {
            memory,
            free: std::array::from_fn(|_| Vec::new()),
            next: root_bytes,
            committed_end,
            region_end,
            used_bytes: root_bytes,
        }
    }

    /// Returns the bytes in use, root and table headers included.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Returns the bytes that were ever handed out, root and table headers included: none of them
    /// becomes anything else.
    pub fn touched_bytes(&self) -> u64 {
        self.next
    }

    /// Returns the bytes of the lists of free chunks.
    pub fn private_bytes(&self) -> u64 {
        let chunks: usize = self.free.iter().map(Vec::capacity).sum();
        (chunks * size_of::<u64>()) as u64
    }

    /// Returns a zeroed chunk of `2^log2` bytes, aligned to the smaller of its size and 16 KiB.
    ///
    /// # Errors
    /// NeedRoom when the limit, the region or the system has no more.
    pub fn allocate(&mut self, log2: u32, policy: LimitPolicy) -> Result<u64, NeedRoom> {
        assert!((CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&log2), "chunk of 2^{log2} bytes");
        let offset = match self.free[log2 as usize].pop() {
            Some(offset) => self.zeroed(offset, log2),
            None if log2 < PAGE_LOG2 => self.cut(log2, policy)?,
            None => self.extend(1 << log2, policy)?,
        };
        self.used_bytes += 1 << log2;
        Ok(offset)
    }

    /// Takes back a chunk of `2^log2` bytes.
    pub fn free(&mut self, offset: u64, log2: u32) {
        self.used_bytes -= 1 << log2;
        self.free[log2 as usize].push(offset);
    }

    fn zeroed(&self, offset: u64, log2: u32) -> u64 {
        sequence::before_reuse::<AtomicU64>();
        // SAFETY: a free chunk of this pool: committed index memory at a multiple of its size, and
        // so of whole words. Nobody else writes it, as the pool, which is borrowed mutably, has
        // just taken it off its lists.
        unsafe { store_zeroes(self.memory.pointer(offset), 1 << log2) };
        offset
    }

    /// Halves a larger chunk until one of `2^log2` bytes is left over.
    fn cut(&mut self, log2: u32, policy: LimitPolicy) -> Result<u64, NeedRoom> {
        let from = (log2 + 1..=PAGE_LOG2).find(|&size| !self.free[size as usize].is_empty());
        let (offset, size) = match from {
            Some(size) => (self.free[size as usize].pop().expect("not empty"), size),
            None => (self.extend(PAGE_BYTES, policy)?, PAGE_LOG2),
        };
        for half in (log2..size).rev() {
            self.free[half as usize].push(offset + (1 << half));
        }
        Ok(self.zeroed(offset, log2))
    }

    /// Takes fresh memory, which the system hands out zeroed.
    fn extend(&mut self, bytes: u64, policy: LimitPolicy) -> Result<u64, NeedRoom> {
        let offset = self.next;
        if offset + bytes > self.region_end {
            return Err(NeedRoom { bytes, region: Region::Index });
        }
        self.memory.touch_index(bytes, policy)?;
        while self.committed_end < offset + bytes {
            if let Err(need) = self.memory.commit(self.committed_end, Region::Index) {
                self.memory.untouch(bytes);
                return Err(need);
            }
            self.committed_end += self.memory.segment_bytes();
        }
        self.next += bytes;
        Ok(offset)
    }
}
