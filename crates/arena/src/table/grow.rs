//! Linear hashing: the next bucket splits when the table is full enough, the last one merges back
//! when it is nearly empty, and the directory follows.

use std::sync::atomic::Ordering;

use crate::atomic_copy::move_words;
use crate::bucket::Next;
use crate::index_pool::IndexPool;
use crate::layout::{
    BUCKETS_PER_BLOCK, CHAIN_BUCKETS_MAX, CHAIN_ENTRIES_MAX, LINE_BYTES, PAGE_BYTES,
    SLOTS_PER_BUCKET, table_header,
};
use crate::mapped_range::{LimitPolicy, NeedRoom};
use crate::protocol_rules::Rule;

use super::chain::ALIKE_MAX;
use super::spill::BUCKET_COUNT_MAX;
use super::{Table, prefetch};

/// Buckets of a new table.
const BUCKET_COUNT_MIN: u64 = 16;
/// A table splits a bucket above this share of its home slots, in percent. Bytes of index a key
/// over a whole doubling, overflow buckets included: 10.4-10.9 at 85, 11.8-12.5 at 65.
const LOAD_PERCENT_MAX: u64 = 85;
/// A table merges two buckets below this share.
const LOAD_PERCENT_MIN: u64 = 25;
/// The first directory: 64 words.
const DIRECTORY_LOG2_MIN: u32 = 9;

impl Table {
    /// Makes the first directory and the first buckets.
    pub(super) fn open_directory(&mut self) -> Result<(), NeedRoom> {
        let first = FirstChunks::allocate(&mut self.arena.index(), self.policy)?;
        self.open_with(first);
        Ok(())
    }

    /// Frees all that the index uses, and opens an empty one in that memory.
    pub(super) fn reopen_directory(&mut self) {
        let arena = self.arena.clone();
        let mut pool = arena.index();
        self.close_into(&mut pool);
        // Within the same hold of the pool: nobody else has taken what was just freed.
        let first = FirstChunks::allocate(&mut pool, LimitPolicy::Overshoot);
        drop(pool);
        self.open_with(first.expect("an index leaves a directory and a block at least"));
    }

    fn open_with(&mut self, FirstChunks { directory: chunk, block }: FirstChunks) {
        debug_assert_eq!(self.bucket_count, 0, "a directory is opened once");
        let log2 = first_block_log2(BUCKET_COUNT_MIN);
        self.index_bytes = (1 << log2) + (1 << DIRECTORY_LOG2_MIN);
        self.begin_header(Rule::OddWhileClearing);
        self.memory.word(chunk).store(block, Ordering::Relaxed);
        self.directory = vec![block];
        self.directory_chunk = (chunk, DIRECTORY_LOG2_MIN);
        self.bucket_count = BUCKET_COUNT_MIN;
        self.publish();
        self.end_header(Rule::OddWhileClearing);
    }

    /// Frees all that the index uses. The header, which the caller holds odd, says: no table.
    pub(super) fn close_directory(&mut self) {
        let arena = self.arena.clone();
        self.close_into(&mut arena.index());
    }

    fn close_into(&mut self, pool: &mut IndexPool) {
        self.free_overflow_chunks(pool);
        let first = first_block_log2(self.bucket_count.min(BUCKETS_PER_BLOCK));
        for (position, block) in self.directory.drain(..).enumerate() {
            pool.free(block, if position == 0 { first } else { PAGE_BYTES.trailing_zeros() });
        }
        if self.directory_chunk.1 != 0 {
            pool.free(self.directory_chunk.0, self.directory_chunk.1);
        }
        self.index_bytes = 0;
        self.bucket_count = 0;
        self.directory_chunk = (0, 0);
        self.publish();
    }

    /// Splits the next bucket where one more entry would make the table too full.
    pub(super) fn grow_for_one(&mut self) -> Result<(), NeedRoom> {
        let slots = self.bucket_count * SLOTS_PER_BUCKET as u64;
        if (self.entry_count + 1) * 100 <= slots * LOAD_PERCENT_MAX {
            return Ok(());
        }
        self.make_bucket_room()?;
        self.split();
        Ok(())
    }

    /// Makes so many buckets that `count` entries more fit without one more; the fewer entries the
    /// table has, the less that costs. Where there is no room the table has as many more as fit.
    ///
    /// # Errors
    /// NeedRoom where that is too few.
    pub fn grow_for(&mut self, count: u64) -> Result<(), NeedRoom> {
        let entries = self.entry_count.saturating_add(count);
        let is_enough = |buckets: u64| {
            let slots = buckets * SLOTS_PER_BUCKET as u64;
            entries.saturating_mul(100) <= slots * LOAD_PERCENT_MAX
        };
        while self.bucket_count < BUCKET_COUNT_MAX && !is_enough(self.bucket_count) {
            self.make_bucket_room()?;
            self.split();
        }
        Ok(())
    }

    /// Merges the last bucket back where the table is nearly empty.
    pub(super) fn shrink_for_one(&mut self) {
        let slots = self.bucket_count * SLOTS_PER_BUCKET as u64;
        if self.bucket_count > BUCKET_COUNT_MIN && self.entry_count * 100 < slots * LOAD_PERCENT_MIN
        {
            self.merge();
        }
    }

    /// Writes bucket count and directory to the header, whose sequence is odd.
    pub(super) fn publish(&self) {
        let store = |at: u64, value: u64| {
            self.memory.word(self.header + at).store(value, Ordering::Relaxed);
        };
        store(table_header::BUCKET_COUNT, self.bucket_count);
        store(table_header::DIRECTORY, self.directory_chunk.0);
    }

    /// Moves the entries that one more bit of hash sends on to a new last bucket.
    fn split(&mut self) {
        let new_index = self.bucket_count;
        let half = 1 << (u64::BITS - 1 - new_index.leading_zeros());
        let (source, target) = (self.home_at(new_index - half), self.home_at(new_index));
        let mut gathered = std::mem::take(&mut self.gathered);
        let mut spare = std::mem::take(&mut self.free_overflow);
        self.gather(source, &mut gathered, &mut spare);
        for &(_, reference) in &gathered {
            prefetch(self.memory.pointer(reference));
        }
        let had_spilled = self.ends_with_spill(source);
        let hasher = *self.arena.hasher();
        let mut stay = 0;
        for index in 0..gathered.len() {
            if hasher.hash(self.entry_at(gathered[index].1).key()) & half == 0 {
                gathered.swap(stay, index);
                stay += 1;
            }
        }
        self.begin_header(Rule::OddWhileSplitting);
        let (source_home, target_home) = (self.bucket(source), self.bucket(target));
        source_home.begin(Rule::OddWhileSplitting);
        target_home.begin(Rule::OddWhileSplitting);
        self.bucket_count += 1;
        let ends = match had_spilled {
            true => [new_index - half, new_index].map(|index| self.chain_end(index)),
            false => [Next::End; 2],
        };
        self.fill_chain(source, gathered[..stay].iter().copied(), ends[0], &mut spare);
        self.fill_chain(target, gathered[stay..].iter().copied(), ends[1], &mut spare);
        target_home.end(Rule::OddWhileSplitting);
        source_home.end(Rule::OddWhileSplitting);
        self.publish();
        self.end_header(Rule::OddWhileSplitting);
        self.finish_move(gathered, spare);
        if ends.contains(&Next::Spill) {
            let moved = self.refill(new_index - half) + self.refill(new_index);
            self.moved_entries_max = self.moved_entries_max.max(moved as u64);
        }
    }

    /// Returns whether the end of the chain at `home` says that entries of it are spilled.
    fn ends_with_spill(&self, home: u64) -> bool {
        !self.spill.is_empty() && self.bucket(self.tail(home).0).next() == Next::Spill
    }

    /// Returns what has to stand at the end of the chain of the home bucket at `index`.
    fn chain_end(&self, index: u64) -> Next {
        if self.has_spilled(index) { Next::Spill } else { Next::End }
    }

    /// Moves the entries of the last bucket back to the one that it was split from; what one chain
    /// has no room for is spilled.
    pub(super) fn merge(&mut self) {
        let last = self.bucket_count - 1;
        let half = 1 << (u64::BITS - 1 - last.leading_zeros());
        let (target, source) = (self.home_at(last - half), self.home_at(last));
        let mut gathered = std::mem::take(&mut self.gathered);
        let mut spare = std::mem::take(&mut self.free_overflow);
        self.gather(target, &mut gathered, &mut spare);
        self.gather(source, &mut gathered, &mut spare);
        let needed = gathered.len().div_ceil(SLOTS_PER_BUCKET).clamp(1, CHAIN_BUCKETS_MAX) - 1;
        self.free_overflow = spare;
        while self.free_overflow.len() < needed {
            if self.add_overflow_chunk().is_err() {
                gathered.clear();
                self.gathered = gathered;
                return self.forget_spares(target, source);
            }
        }
        let mut spare = std::mem::take(&mut self.free_overflow);
        let had_spilled = self.ends_with_spill(target) || self.ends_with_spill(source);
        self.begin_header(Rule::OddWhileSplitting);
        let (target_home, source_home) = (self.bucket(target), self.bucket(source));
        target_home.begin(Rule::OddWhileSplitting);
        source_home.begin(Rule::OddWhileSplitting);
        self.bucket_count = last;
        let kept = keep_first(&mut gathered);
        self.spill_all(&gathered[kept..]);
        let end = if had_spilled || kept < gathered.len() { Next::Spill } else { Next::End };
        self.fill_chain(target, gathered[..kept].iter().copied(), end, &mut spare);
        source_home.reset();
        source_home.end(Rule::OddWhileSplitting);
        target_home.end(Rule::OddWhileSplitting);
        self.drop_block_of(last);
        self.publish();
        self.end_header(Rule::OddWhileSplitting);
        self.finish_move(gathered, spare);
    }

    /// Takes the overflow buckets that are still in use off the free list: a merge was given up.
    fn forget_spares(&mut self, first: u64, second: u64) {
        let mut in_use = Vec::new();
        self.gather(first, &mut Vec::new(), &mut in_use);
        self.gather(second, &mut Vec::new(), &mut in_use);
        self.free_overflow.retain(|bucket| !in_use.contains(bucket));
    }

    fn finish_move(&mut self, mut gathered: Vec<(u8, u64)>, spare: Vec<u64>) {
        self.moved_entries_max = self.moved_entries_max.max(gathered.len() as u64);
        gathered.clear();
        self.gathered = gathered;
        self.free_overflow = spare;
    }

    /// Makes the memory of bucket `bucket_count` exist.
    fn make_bucket_room(&mut self) -> Result<(), NeedRoom> {
        let index = self.bucket_count;
        assert!(index < BUCKET_COUNT_MAX, "a table's buckets are bounded");
        if index < BUCKETS_PER_BLOCK {
            return if index == bucket_room(index) { self.widen_first_block() } else { Ok(()) };
        }
        if !index.is_multiple_of(BUCKETS_PER_BLOCK) {
            return Ok(());
        }
        let position = index / BUCKETS_PER_BLOCK;
        if position == (1 << self.directory_chunk.1) / 8 {
            self.widen_directory()?;
        }
        let block = self.arena.index().allocate(PAGE_BYTES.trailing_zeros(), self.policy)?;
        self.index_bytes += PAGE_BYTES;
        // No reader looks at this word before the bucket count says so.
        self.memory.word(self.directory_chunk.0 + position * 8).store(block, Ordering::Relaxed);
        self.directory.push(block);
        Ok(())
    }

    /// Moves the only block, which is full and smaller than a page, to one of four times its size.
    fn widen_first_block(&mut self) -> Result<(), NeedRoom> {
        let (old, log2) = (self.directory[0], first_block_log2(self.bucket_count));
        let block = self.arena.index().allocate(log2 + 2, self.policy)?;
        self.begin_header(Rule::OddWhileSplitting);
        self.copy_chunk(old, block, log2);
        self.memory.word(self.directory_chunk.0).store(block, Ordering::Relaxed);
        self.directory[0] = block;
        self.end_header(Rule::OddWhileSplitting);
        self.arena.index().free(old, log2);
        self.index_bytes += (1 << (log2 + 2)) - (1 << log2);
        Ok(())
    }

    /// Copies a chunk of `2^log2` bytes into another, which is larger and which nobody sees yet.
    fn copy_chunk(&self, source: u64, target: u64, log2: u32) {
        // SAFETY: both are chunks that the index pool has given to this table and not taken back:
        // committed, apart, of `2^log2` bytes at least, which are whole words, and aligned to their
        // sizes. Only the holder of the table's `&mut` writes them, and its callers have it.
        unsafe { move_words(self.memory.pointer(target), self.memory.pointer(source), 1 << log2) };
    }

    /// Doubles the directory.
    fn widen_directory(&mut self) -> Result<(), NeedRoom> {
        let (old, log2) = self.directory_chunk;
        let chunk = self.arena.index().allocate(log2 + 1, self.policy)?;
        self.begin_header(Rule::OddWhileSplitting);
        self.copy_chunk(old, chunk, log2);
        self.directory_chunk = (chunk, log2 + 1);
        self.publish();
        self.end_header(Rule::OddWhileSplitting);
        self.arena.index().free(old, log2);
        self.index_bytes += 1 << log2;
        Ok(())
    }

    /// Frees the block of the bucket at `index` where that was its first and the table ends there.
    fn drop_block_of(&mut self, index: u64) {
        if index.is_multiple_of(BUCKETS_PER_BLOCK) && index != 0 {
            let block = self.directory.pop().expect("a block for each 256 buckets");
            self.arena.index().free(block, PAGE_BYTES.trailing_zeros());
            self.index_bytes -= PAGE_BYTES;
        }
    }
}

/// Puts those of `entries` first that one chain may have, and returns how many they are.
fn keep_first(entries: &mut [(u8, u64)]) -> usize {
    if entries.len() <= ALIKE_MAX {
        return entries.len();
    }
    let (mut kept, mut alike) = (0, [0_u8; 256]);
    for index in 0..entries.len() {
        let count = &mut alike[usize::from(entries[index].0)];
        if kept < CHAIN_ENTRIES_MAX && usize::from(*count) < ALIKE_MAX {
            *count += 1;
            entries.swap(kept, index);
            kept += 1;
        }
    }
    kept
}

/// The chunks of the smallest index.
struct FirstChunks {
    directory: u64,
    block: u64,
}

impl FirstChunks {
    fn allocate(pool: &mut IndexPool, policy: LimitPolicy) -> Result<FirstChunks, NeedRoom> {
        let directory = pool.allocate(DIRECTORY_LOG2_MIN, policy)?;
        match pool.allocate(first_block_log2(BUCKET_COUNT_MIN), policy) {
            Ok(block) => Ok(FirstChunks { directory, block }),
            Err(need) => {
                pool.free(directory, DIRECTORY_LOG2_MIN);
                Err(need)
            }
        }
    }
}

/// Returns how many buckets the first block of a table of `count` buckets has room for.
fn bucket_room(count: u64) -> u64 {
    (1 << first_block_log2(count)) / LINE_BYTES
}

/// Returns the size of the first block of a table of `count` buckets: 1, 4 or 16 KiB.
fn first_block_log2(count: u64) -> u32 {
    match count {
        0..=16 => 10,
        17..=64 => 12,
        _ => 14,
    }
}
