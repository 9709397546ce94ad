//! Extents: one contiguous block for each entry of 4 KiB and more.
//!
//! *Layout*: `extent/tag.rs` shows the two words of a block that the allocator owns,
//! `extent/tiles.rs` keeps the tiling of the region, `extent/bins.rs` the holes by size,
//! `extent/slide.rs` finds the blocks whose moves merge holes, `extent/clear.rs` those that leave a
//! part of the region, `extent/segment_release.rs` releases segments, this file allocates.
//! *Invariants*: blocks, holes and gaps tile the region. A hole is free memory that was written
//! before; a gap is addresses without memory, whole pages of 4 KiB. A block's tag names its tile,
//! and both say the same size whenever the block is used.
//! *Not here*: the lock around an `ExtentSpace`, keys and values, pins, which entry to evict.
//!
//! Best fit, holes before gaps: memory that the process has is used before memory that the system
//! would have to give. docs/decisions/0001-extents.md says what else was tried and measured.

mod bins;
mod clear;
mod segment_release;
mod slide;
mod tag;
mod tiles;

#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::step_counters::{self, CountedStep};

use crate::arena::Arena;
use crate::layout::{LINE_BYTES, block};
use crate::mapped_range::{LimitPolicy, MappedRange, NeedRoom, Region};

use tag::Tag;
use tiles::{Kind, Tile, TileId, Tiles};

pub use slide::{Obstacle, SlideBudget, SlideStep, TopStep};
pub use tag::BlockOwner;

/// The granule in which the system gives memory and in which touched memory is counted.
const TOUCH_BYTES: u64 = 4096;
/// How many gaps are looked at before the one that ends the region is tried.
const GAPS_TRIED_MAX: usize = 64;

/// What the extent region is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtentFigures {
    /// All blocks, retired and reserved ones too.
    pub used_bytes: u64,
    /// Blocks that only wait for their pins.
    pub retired_bytes: u64,
    /// Blocks that nothing refers to yet.
    pub reserved_bytes: u64,
    /// What the region has taken from the system: blocks and holes.
    pub touched_bytes: u64,
    /// All holes.
    pub free_bytes: u64,
    /// The largest hole.
    pub largest_hole_bytes: u64,
    /// The number of blocks, retired ones too.
    pub block_count: u64,
    /// The number of holes.
    pub hole_count: u64,
    /// Private memory that the allocator takes for itself.
    pub private_bytes: u64,
}

impl Arena {
    /// Returns what the extent region is made of.
    pub fn extent_figures(&self) -> ExtentFigures {
        self.extents().figures()
    }

    /// Returns the bytes of blocks that are reserved: their values are still to come.
    pub fn reserved_bytes(&self) -> u64 {
        self.extents().reserved_bytes
    }

    /// Returns the bytes of blocks that nothing refers to but pins.
    pub fn retired_bytes(&self) -> u64 {
        self.extents().retired_bytes
    }

    /// Returns the bytes of all holes between blocks.
    pub fn extent_free_bytes(&self) -> u64 {
        self.extents().free_bytes()
    }

    /// Returns how large the largest hole between blocks is, in grades that differ by some 3 %; 0
    /// where there is none.
    pub fn largest_hole_grade(&self) -> usize {
        self.extents().tiles.largest_hole_bin().map_or(0, |bin| bin + 1)
    }

    /// Returns the offset and the owner of a block chosen by `random`, every block about as likely;
    /// `None` when there are hardly any. A moment later it may have moved or be gone.
    pub fn sample_block(&self, random: u64) -> Option<(u64, BlockOwner)> {
        let extents = self.extents();
        let block = extents.tiles.some_block(random)?;
        Some((block.offset, extents.owner(block.offset)))
    }

    /// Returns whether an extent of `bytes` finds a hole, so that nothing need be moved or evicted
    /// for it.
    pub fn extent_fits(&self, bytes: u64) -> bool {
        self.extents().fits(bytes)
    }
}

/// The allocator of the extent region. The caller serialises all calls.
pub(crate) struct ExtentSpace {
    memory: Arc<MappedRange>,
    base: u64,
    end: u64,
    tiles: Tiles,
    /// Which segments of the region the source has committed; those behind the last were never.
    committed: Vec<bool>,
    used_bytes: u64,
    retired_bytes: u64,
    reserved_bytes: u64,
    block_count: u64,
    /// The memory that a search for a window takes, kept for the next one.
    line: Vec<slide::Weighed>,
}

impl ExtentSpace {
    /// Takes `base..end` of `memory`: whole segments, none committed yet.
    pub fn new(memory: Arc<MappedRange>, base: u64, end: u64) -> ExtentSpace {
        let segment = memory.segment_bytes();
        assert!(base < end, "an empty extent region");
        assert_eq!((base % segment, end % segment), (0, 0), "the region is whole segments");
        assert_eq!(segment % TOUCH_BYTES, 0, "a segment is whole pages");
        ExtentSpace {
            committed: Vec::new(),
            memory,
            base,
            end,
            tiles: Tiles::new(base..end),
            used_bytes: 0,
            retired_bytes: 0,
            reserved_bytes: 0,
            block_count: 0,
            line: Vec::new(),
        }
    }

    /// Returns a block of `bytes`, its header line counted and rounded up to whole lines, owned by
    /// `owner`. All but the tag and the owner word is left as it was found.
    ///
    /// # Errors
    /// NeedRoom when no hole fits and the limit, the region or the system has no more memory.
    ///
    /// # Panics
    /// When `bytes` is 0 or above 256 GiB.
    pub fn allocate(
        &mut self,
        bytes: u64,
        owner: BlockOwner,
        policy: LimitPolicy,
    ) -> Result<u64, NeedRoom> {
        let offset = self.take(bytes, Kind::Block, policy)?;
        self.set_owner(offset, owner);
        Ok(offset)
    }

    /// Returns a block of `bytes` as [`ExtentSpace::allocate`] does that nothing refers to yet: it
    /// is neither moved nor found until it is linked.
    ///
    /// # Errors
    /// As [`ExtentSpace::allocate`].
    pub fn reserve(&mut self, bytes: u64, policy: LimitPolicy) -> Result<u64, NeedRoom> {
        let offset = self.take(bytes, Kind::Reserved, policy)?;
        self.reserved_bytes += block_size(bytes);
        Ok(offset)
    }

    /// Makes the reserved block at `offset` that of `owner`, who refers to it from here on.
    ///
    /// # Panics
    /// When no block is reserved at `offset`.
    pub fn link(&mut self, offset: u64, owner: BlockOwner) {
        let (id, tile) = self.block(offset);
        assert_eq!(tile.kind, Kind::Reserved, "the block at {offset:#x} is linked twice");
        self.tiles.turn(id, tile.bytes, Kind::Block);
        self.reserved_bytes -= tile.bytes;
        self.set_owner(offset, owner);
    }

    fn take(&mut self, bytes: u64, kind: Kind, policy: LimitPolicy) -> Result<u64, NeedRoom> {
        let bytes = block_size(bytes);
        let hole = match self.tiles.best_fit(bytes) {
            Some(hole) => hole,
            None => self.warm_up(bytes, policy)?,
        };
        let tile = self.tiles.turn(hole, bytes, kind);
        let offset = self.tiles.get(tile).offset;
        self.write_tag(offset, Tag { bytes, tile });
        self.used_bytes += bytes;
        self.block_count += 1;
        Ok(offset)
    }

    /// Frees the block at `offset`, a retired or reserved one too.
    ///
    /// # Panics
    /// When no block starts at `offset`.
    pub fn free(&mut self, offset: u64) {
        let (id, tile) = self.block(offset);
        match tile.kind {
            Kind::Retired => self.retired_bytes -= tile.bytes,
            Kind::Reserved => self.reserved_bytes -= tile.bytes,
            Kind::Block | Kind::Hole | Kind::Gap => {}
        }
        self.used_bytes -= tile.bytes;
        self.block_count -= 1;
        self.tiles.turn(id, tile.bytes, Kind::Hole);
    }

    /// Makes the block at `offset` at least `bytes` large where it lies, from the free memory
    /// behind it. Returns false, with nothing changed, when there is too little of it.
    ///
    /// # Panics
    /// When no block starts at `offset`.
    pub fn extend(&mut self, offset: u64, bytes: u64, policy: LimitPolicy) -> bool {
        let ((id, tile), bytes) = (self.block(offset), block_size(bytes));
        let missing = bytes.saturating_sub(tile.bytes);
        if missing == 0 {
            return true;
        }
        if self.hole_behind(id) < missing {
            let end = offset + bytes;
            let Ok(untouched) = self.free_up_to(id, end) else { return false };
            if self.touch_up_to(id, end, untouched, policy).is_err() {
                return false;
            }
        }
        self.tiles.grow(id, missing);
        self.resize(offset, id, tile, bytes);
        true
    }

    /// Gives back what the block at `offset` has above `bytes`.
    ///
    /// # Panics
    /// When no block starts at `offset`.
    #[cfg_attr(not(test), expect(dead_code, reason = "spare room is kept"))]
    pub fn shrink(&mut self, offset: u64, bytes: u64) {
        let ((id, tile), bytes) = (self.block(offset), block_size(bytes));
        if bytes < tile.bytes {
            let rest = self.tiles.split(id, bytes);
            self.tiles.turn(rest, tile.bytes - bytes, Kind::Hole);
            self.resize(offset, id, tile, bytes);
        }
    }

    /// Marks the block at `offset` as unlinked: it is not moved any more and waits, counted apart,
    /// until its last pin is gone and it is freed.
    ///
    /// # Panics
    /// When no block starts at `offset` or it is retired already.
    pub fn retire(&mut self, offset: u64) {
        let (id, tile) = self.block(offset);
        assert_ne!(tile.kind, Kind::Retired, "the block at {offset:#x} is retired twice");
        if tile.kind == Kind::Reserved {
            self.reserved_bytes -= tile.bytes;
        }
        self.tiles.turn(id, tile.bytes, Kind::Retired);
        self.retired_bytes += tile.bytes;
    }

    /// Returns the size of the block at `offset`, its header line counted.
    ///
    /// # Panics
    /// When no block starts at `offset`.
    pub fn block_bytes(&self, offset: u64) -> u64 {
        self.block(offset).1.bytes
    }

    /// Returns the bytes of the blocks at `offsets`, wherever those come from: what is no block
    /// counts nothing. Costs a sort of the gaps.
    pub fn bytes_at(&self, offsets: impl IntoIterator<Item = u64>) -> u64 {
        let gaps = self.tiles.gaps().iter().map(|&gap| self.tiles.get(gap));
        let mut gaps: Vec<Tile> = gaps.collect();
        gaps.sort_unstable_by_key(|gap| gap.offset);
        let is_in_gap = |offset: u64| {
            let behind = gaps.partition_point(|gap| gap.offset <= offset);
            gaps[..behind].last().is_some_and(|gap| offset < gap.end())
        };
        let outside = offsets.into_iter().filter(|&offset| !is_in_gap(offset));
        outside
            .filter_map(|offset| self.block_outside_gaps(offset))
            .map(|(_, tile)| tile.bytes)
            .sum()
    }

    /// Returns who refers to the block at `offset`.
    pub fn owner(&self, offset: u64) -> BlockOwner {
        BlockOwner::from_word(self.memory.word(offset + block::OWNER).load(Ordering::Relaxed))
    }

    /// Replaces the owner of the block at `offset`.
    pub fn set_owner(&mut self, offset: u64, owner: BlockOwner) {
        self.memory.word(offset + block::OWNER).store(owner.to_word(), Ordering::Relaxed);
    }

    /// Returns the bytes of all blocks, retired ones too.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Returns the bytes of private memory: the records of blocks, holes and gaps, which segments
    /// there are, and what the search for a window keeps.
    pub fn private_bytes(&self) -> u64 {
        let segments = self.committed.capacity() * size_of::<bool>();
        let line = self.line.capacity() * size_of::<slide::Weighed>();
        self.tiles.private_bytes() + (segments + line) as u64
    }

    /// Returns the bytes that the region has taken from the system: blocks and holes.
    pub fn touched_bytes(&self) -> u64 {
        self.end - self.base - self.tiles.gap_bytes()
    }

    /// Returns the bytes of all holes.
    pub fn free_bytes(&self) -> u64 {
        self.tiles.hole_bytes()
    }

    /// Returns whether a block of `bytes` finds a hole, so that no more memory needs to be touched.
    pub fn fits(&self, bytes: u64) -> bool {
        self.tiles.best_fit(block_size(bytes)).is_some()
    }

    /// Returns what the region is made of. Costs a look at the holes of the largest bin.
    pub fn figures(&self) -> ExtentFigures {
        ExtentFigures {
            used_bytes: self.used_bytes,
            retired_bytes: self.retired_bytes,
            reserved_bytes: self.reserved_bytes,
            touched_bytes: self.touched_bytes(),
            free_bytes: self.free_bytes(),
            largest_hole_bytes: self.tiles.largest_hole(),
            block_count: self.block_count,
            hole_count: self.tiles.hole_count() as u64,
            private_bytes: self.private_bytes(),
        }
    }

    /// Touches as much of a gap as a block of `bytes` needs, and returns the hole that it makes
    /// with the holes on its sides. The lowest gap that suffices is taken, so that the upper end of
    /// the region stays empty.
    fn warm_up(&mut self, bytes: u64, policy: LimitPolicy) -> Result<TileId, NeedRoom> {
        let need = NeedRoom { bytes, region: Region::Extent };
        let before = |gap| {
            let hole = self.tiles.previous_of(gap, Kind::Hole);
            hole.map_or(0, |hole| self.tiles.get(hole).bytes)
        };
        let fits = |&gap: &TileId| {
            before(gap) + self.tiles.get(gap).bytes + self.hole_behind(gap) >= bytes
        };
        let some = self.tiles.gaps().iter().copied().take(GAPS_TRIED_MAX).filter(fits);
        let last = [self.tiles.last()].into_iter();
        let last = last.filter(|&id| self.tiles.get(id).kind == Kind::Gap).filter(fits);
        let gap = some.chain(last).min_by_key(|&gap| self.tiles.get(gap).offset).ok_or(need)?;
        let start = self.tiles.get(gap).offset - before(gap);
        self.touch(gap, start + bytes, policy).map_err(|_| need)
    }

    /// Makes a hole of the pages of `gap` from its start up to `end`, which may lie behind it, and
    /// returns it.
    fn touch(&mut self, gap: TileId, end: u64, policy: LimitPolicy) -> Result<TileId, NeedRoom> {
        let tile = self.tiles.get(gap);
        let end = page_end(end).min(tile.end());
        let bytes = end - tile.offset;
        self.memory.touch(bytes, Region::Extent, policy)?;
        if let Err(need) = self.commit(tile.offset, end) {
            self.memory.untouch(bytes);
            return Err(need);
        }
        Ok(self.tiles.turn(gap, bytes, Kind::Hole))
    }

    /// Checks that everything between the tile `id` and `end` is free, and returns the bytes of the
    /// gaps there.
    ///
    /// # Errors
    /// The first tile there that is not free; none where the region ends before.
    fn free_up_to(&self, id: TileId, end: u64) -> Result<u64, Option<TileId>> {
        let (mut last, mut untouched) = (id, 0);
        while self.tiles.get(last).end() < end {
            last = self.tiles.next(last).ok_or(None)?;
            let tile = self.tiles.get(last);
            match tile.kind {
                Kind::Hole => {}
                Kind::Gap => untouched += tile.end().min(page_end(end)) - tile.offset,
                Kind::Block | Kind::Retired | Kind::Reserved => return Err(Some(last)),
            }
        }
        Ok(untouched)
    }

    /// Makes one hole of what is between the tile `id` and `end`, which is free and has
    /// `untouched` bytes of gaps; changes nothing where it fails.
    fn touch_up_to(
        &mut self,
        id: TileId,
        end: u64,
        untouched: u64,
        policy: LimitPolicy,
    ) -> Result<(), NeedRoom> {
        let end = page_end(end);
        let touched = |gap: Tile| gap.end().min(end) - gap.offset;
        self.memory.touch(untouched, Region::Extent, policy)?;
        let mut last = id;
        while let Some((next, gap)) = self.gap_behind(last, end) {
            if let Err(need) = self.commit(gap.offset, gap.offset + touched(gap)) {
                self.memory.untouch(untouched);
                return Err(need);
            }
            last = next;
        }
        while let Some((next, gap)) = self.gap_behind(id, end) {
            self.tiles.turn(next, touched(gap), Kind::Hole);
        }
        Ok(())
    }

    /// Returns the next gap behind the tile `id`, if it begins before `end`.
    fn gap_behind(&self, id: TileId, end: u64) -> Option<(TileId, Tile)> {
        let behind = std::iter::successors(self.tiles.next(id), |&id| self.tiles.next(id));
        let mut behind = behind.map(|id| (id, self.tiles.get(id)));
        behind
            .find(|(_, tile)| tile.kind == Kind::Gap || tile.offset >= end)
            .filter(|(_, tile)| tile.offset < end)
    }

    /// Returns the size of the hole behind `tile`; 0 where there is none.
    fn hole_behind(&self, tile: TileId) -> u64 {
        self.tiles.next_of(tile, Kind::Hole).map_or(0, |hole| self.tiles.get(hole).bytes)
    }

    /// Commits the segments under `start..end`. Where one fails, those before it stay: a committed
    /// segment that nobody writes costs no memory.
    fn commit(&mut self, start: u64, end: u64) -> Result<(), NeedRoom> {
        let segment_bytes = self.memory.segment_bytes();
        let first = ((start - self.base) / segment_bytes) as usize;
        let last = ((end - 1 - self.base) / segment_bytes) as usize;
        for index in first..=last {
            if self.committed.len() <= index {
                self.committed.resize(index + 1, false);
            }
            if !self.committed[index] {
                self.memory.commit(self.base + index as u64 * segment_bytes, Region::Extent)?;
                self.committed[index] = true;
            }
        }
        Ok(())
    }

    /// Stores the new size of a block, whose tile has it already.
    fn resize(&mut self, offset: u64, id: TileId, old: Tile, bytes: u64) {
        self.used_bytes = self.used_bytes - old.bytes + bytes;
        match old.kind {
            Kind::Retired => self.retired_bytes = self.retired_bytes - old.bytes + bytes,
            Kind::Reserved => self.reserved_bytes = self.reserved_bytes - old.bytes + bytes,
            Kind::Block | Kind::Hole | Kind::Gap => {}
        }
        self.write_tag(offset, Tag { bytes, tile: id });
    }

    /// Returns the tile of the block at `offset`, which its tag names.
    fn block(&self, offset: u64) -> (TileId, Tile) {
        let word = self.memory.word(offset + block::TAG).load(Ordering::Relaxed);
        let tag = Tag::from_word(word);
        let tile = self.tiles.check(tag.tile, offset);
        let block = tile.filter(|tile| !tile.is_free() && tile.bytes == tag.bytes);
        match block {
            Some(tile) => (tag.tile, tile),
            None => panic!("no block at {offset:#x}: tag {word:#018x}, tile {tile:x?}"),
        }
    }

    /// As [`ExtentSpace::block`], where `offset` may be out of date.
    fn block_at(&self, offset: u64) -> Option<(TileId, Tile)> {
        let mut gaps = self.tiles.gaps().iter().map(|&gap| self.tiles.get(gap));
        let is_in_gap = gaps.any(|gap| (gap.offset..gap.end()).contains(&offset));
        if is_in_gap { None } else { self.block_outside_gaps(offset) }
    }

    /// As [`ExtentSpace::block`], where `offset` may be anything but in a gap: to read there has
    /// the system give a page.
    fn block_outside_gaps(&self, offset: u64) -> Option<(TileId, Tile)> {
        if !(self.base..self.end).contains(&offset) || !offset.is_multiple_of(LINE_BYTES) {
            return None;
        }
        let segment = ((offset - self.base) / self.memory.segment_bytes()) as usize;
        if !*self.committed.get(segment)? {
            return None;
        }
        step_counters::count_step(CountedStep::Tag);
        let word = self.memory.word(offset + block::TAG).load(Ordering::Relaxed);
        let tag = Tag::from_word(word);
        let tile = self.tiles.check(tag.tile, offset)?;
        (!tile.is_free() && tile.bytes == tag.bytes).then_some((tag.tile, tile))
    }

    fn write_tag(&self, offset: u64, tag: Tag) {
        self.memory.word(offset + block::TAG).store(tag.to_word(), Ordering::Relaxed);
    }
}

/// Returns the first end of a page that is not before `end`.
fn page_end(end: u64) -> u64 {
    end.next_multiple_of(TOUCH_BYTES)
}

fn block_size(bytes: u64) -> u64 {
    assert!(bytes > 0 && bytes <= Tag::BYTES_MAX, "a block of {bytes} bytes");
    bytes.next_multiple_of(LINE_BYTES)
}
