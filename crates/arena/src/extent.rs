//! Extents: one contiguous block for each entry of 4 KiB and more.
//!
//! *Layout*: `extent/tag.rs` draws the two words of a block that the allocator owns,
//! `extent/tiles.rs` keeps what lies where, `extent/slide.rs` finds the blocks whose moves merge
//! holes, this file allocates.
//! *Invariants*: blocks, holes and gaps tile the region. A hole is free memory that was written
//! before; a gap is addresses without memory, whole pages of 4 KiB. A block's size stands twice,
//! in its tag and in its tile, and both must agree when it is freed.
//! *Not here*: the lock around an `ExtentSpace`, keys and values, pins, which entry to evict.
//!
//! Best fit, holes before gaps: memory that the process has is used before memory that the system
//! would have to give. docs/decisions/0001-extents.md says what else was tried and measured.

mod slide;
mod tag;
mod tiles;

#[cfg(test)]
mod campaign;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::layout::{LINE_BYTES, block};
use crate::memory::{Memory, NeedRoom, Room};

use tag::Tag;
use tiles::{Kind, Tile, Tiles};

pub use slide::{SlideBudget, SlideStep};
pub use tag::Owner;

/// The granule in which the system gives memory and in which touched memory is counted.
const TOUCH_BYTES: u64 = 4096;
/// How many gaps are looked at before the last one, which ends the region, is tried.
const GAPS_TRIED_MAX: usize = 64;
/// How many tiles the free memory of a segment may consist of for the segment to be given back.
const TILES_PER_SEGMENT_MAX: usize = 64;

/// The allocator of the extent region. The caller serialises all calls.
pub(crate) struct ExtentSpace {
    memory: Arc<Memory>,
    base: u64,
    end: u64,
    tiles: Tiles,
    /// Which segments of the region the source has committed.
    committed: Vec<bool>,
    used_bytes: u64,
    retired_bytes: u64,
    block_count: u64,
    planner: slide::Planner,
}

impl ExtentSpace {
    /// Takes `base..end` of `memory`: whole segments, none committed yet.
    pub fn new(memory: Arc<Memory>, base: u64, end: u64) -> ExtentSpace {
        let segment = memory.segment_bytes();
        assert!(base < end, "an empty extent region");
        assert_eq!((base % segment, end % segment), (0, 0), "the region is whole segments");
        assert_eq!(segment % TOUCH_BYTES, 0, "a segment is whole pages");
        ExtentSpace {
            committed: vec![false; ((end - base) / segment) as usize],
            memory,
            base,
            end,
            tiles: Tiles::new(base, end),
            used_bytes: 0,
            retired_bytes: 0,
            block_count: 0,
            planner: slide::Planner::new(base),
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
    pub fn allocate(&mut self, bytes: u64, owner: Owner, room: Room) -> Result<u64, NeedRoom> {
        let bytes = block_size(bytes);
        let hole = match self.tiles.best_fit(bytes) {
            Some(hole) => hole,
            None => self.warm_up(bytes, room)?,
        };
        self.tiles.turn(hole.offset, bytes, Kind::Block);
        self.write_tag(hole.offset, Tag { bytes, retired: false });
        self.set_owner(hole.offset, owner);
        self.used_bytes += bytes;
        self.block_count += 1;
        Ok(hole.offset)
    }

    /// Frees the block at `offset`, a retired one too.
    ///
    /// # Panics
    /// When no block starts at `offset`.
    pub fn free(&mut self, offset: u64) {
        let tag = self.checked_tag(offset);
        if tag.retired {
            self.retired_bytes -= tag.bytes;
        }
        self.used_bytes -= tag.bytes;
        self.block_count -= 1;
        self.clear_tag(offset);
        self.tiles.turn(offset, tag.bytes, Kind::Hole);
    }

    /// Makes the block at `offset` at least `bytes` large where it lies, from the free memory
    /// behind it. Returns false, with nothing changed, when there is too little of it.
    pub fn extend(&mut self, offset: u64, bytes: u64, room: Room) -> bool {
        let (tag, bytes) = (self.checked_tag(offset), block_size(bytes));
        let missing = bytes.saturating_sub(tag.bytes);
        if missing == 0 {
            return true;
        }
        let end = offset + tag.bytes;
        let warm = self.bytes_at(end, Kind::Hole);
        if warm < missing {
            let Some(gap) = self.tiles.at(end + warm).and_then(|tile| tile.of(Kind::Gap)) else {
                return false;
            };
            let fits = warm + gap.bytes + self.bytes_at(gap.end(), Kind::Hole) >= missing;
            if !fits || self.touch(gap, end + missing, room).is_err() {
                return false;
            }
        }
        self.tiles.grow(offset, missing);
        self.resize(offset, tag, bytes);
        true
    }

    /// Gives back what the block at `offset` has above `bytes`.
    pub fn shrink(&mut self, offset: u64, bytes: u64) {
        let (tag, bytes) = (self.checked_tag(offset), block_size(bytes));
        if bytes < tag.bytes {
            self.resize(offset, tag, bytes);
            self.tiles.split(offset + bytes);
            self.tiles.turn(offset + bytes, tag.bytes - bytes, Kind::Hole);
        }
    }

    /// Marks the block at `offset` as unlinked: it is not moved any more and waits, counted apart,
    /// until its last pin is gone and it is freed.
    ///
    /// # Panics
    /// When no block starts at `offset` or it is retired already.
    pub fn retire(&mut self, offset: u64) {
        let tag = self.checked_tag(offset);
        assert!(!tag.retired, "the block at {offset:#x} is retired twice");
        self.write_tag(offset, Tag { retired: true, ..tag });
        self.tiles.turn(offset, tag.bytes, Kind::Retired);
        self.retired_bytes += tag.bytes;
    }

    /// Returns the size of the block at `offset`, its header line counted.
    ///
    /// # Panics
    /// When no block starts at `offset`.
    pub fn block_bytes(&self, offset: u64) -> u64 {
        self.tag(offset).bytes
    }

    /// Returns who refers to the block at `offset`.
    pub fn owner(&self, offset: u64) -> Owner {
        Owner::from_word(self.memory.word(offset + block::OWNER).load(Ordering::Relaxed))
    }

    /// Replaces the owner of the block at `offset`.
    pub fn set_owner(&mut self, offset: u64, owner: Owner) {
        self.memory.word(offset + block::OWNER).store(owner.to_word(), Ordering::Relaxed);
    }

    /// Gives whole free segments back to the system, the highest first, until `bytes` of touched
    /// memory are gone or no segment is left; returns how much it was. Costs a look at each
    /// segment of the region.
    pub fn retire_segments(&mut self, bytes: u64) -> u64 {
        let segment_bytes = self.memory.segment_bytes();
        let mut returned = 0;
        for index in (0..self.committed.len()).rev() {
            if returned >= bytes {
                break;
            }
            let start = self.base + index as u64 * segment_bytes;
            if self.committed[index] && self.is_free(start, start + segment_bytes) {
                returned += self.retire_segment(start, start + segment_bytes);
                self.committed[index] = false;
            }
        }
        returned
    }

    /// Returns the bytes of all blocks, retired ones too.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Returns the bytes of the retired blocks.
    pub fn retired_bytes(&self) -> u64 {
        self.retired_bytes
    }

    /// Returns the bytes that the region has taken from the system: blocks and holes.
    pub fn touched_bytes(&self) -> u64 {
        self.end - self.base - self.tiles.gap_bytes()
    }

    /// Returns the bytes of all holes.
    pub fn free_bytes(&self) -> u64 {
        self.tiles.hole_bytes()
    }

    /// Returns the size of the largest hole.
    pub fn largest_hole(&self) -> u64 {
        self.tiles.largest_hole()
    }

    /// Returns the number of holes.
    pub fn hole_count(&self) -> usize {
        self.tiles.hole_count()
    }

    /// Returns the number of blocks, retired ones too.
    pub fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Touches as much of a gap as a block of `bytes` needs, and returns the hole that it makes
    /// with the holes on its sides. The lowest gap that suffices is taken, so that the upper end of
    /// the region stays empty.
    fn warm_up(&mut self, bytes: u64, room: Room) -> Result<Tile, NeedRoom> {
        let need = NeedRoom { bytes };
        let start_of = |gap: Tile| {
            let before = self.tiles.before(gap.offset).and_then(|tile| tile.of(Kind::Hole));
            before.map_or(gap.offset, |hole| hole.offset)
        };
        let fits = |gap: &Tile| {
            gap.end() + self.bytes_at(gap.end(), Kind::Hole) - start_of(*gap) >= bytes
        };
        let mut lowest = self.tiles.gaps().take(GAPS_TRIED_MAX);
        let last = || self.tiles.gaps().next_back().filter(fits);
        let gap = lowest.find(fits).or_else(last).ok_or(need)?;
        let start = start_of(gap);
        drop(lowest);
        self.touch(gap, start + bytes, room).map_err(|_| need)?;
        Ok(self.tiles.at(start).expect("the hole that was just made"))
    }

    /// Makes a hole of the pages of `gap` from its start up to `end`, which may lie behind it.
    fn touch(&mut self, gap: Tile, end: u64, room: Room) -> Result<(), NeedRoom> {
        let end = end.next_multiple_of(TOUCH_BYTES).min(gap.end());
        let bytes = end - gap.offset;
        self.memory.touch(bytes, room)?;
        if let Err(need) = self.commit(gap.offset, end) {
            self.memory.untouch(bytes);
            return Err(need);
        }
        self.tiles.turn(gap.offset, bytes, Kind::Hole);
        Ok(())
    }

    /// Commits the segments under `start..end`. Where one fails, those before it stay: a committed
    /// segment that nobody writes costs no memory.
    fn commit(&mut self, start: u64, end: u64) -> Result<(), NeedRoom> {
        let segment_bytes = self.memory.segment_bytes();
        let first = ((start - self.base) / segment_bytes) as usize;
        let last = ((end - 1 - self.base) / segment_bytes) as usize;
        for index in first..=last {
            if !self.committed[index] {
                self.memory.commit(self.base + index as u64 * segment_bytes)?;
                self.committed[index] = true;
            }
        }
        Ok(())
    }

    fn is_free(&self, start: u64, end: u64) -> bool {
        let mut reached = start;
        for _ in 0..TILES_PER_SEGMENT_MAX {
            let tile = self.tiles.holding(reached);
            if !matches!(tile.kind, Kind::Hole | Kind::Gap) {
                return false;
            }
            reached = tile.end();
            if reached >= end {
                return true;
            }
        }
        false
    }

    /// Turns a free segment into a gap and returns how much of it was touched.
    fn retire_segment(&mut self, start: u64, end: u64) -> u64 {
        let touched_before = self.touched_bytes();
        let mut reached = start;
        for _ in 0..TILES_PER_SEGMENT_MAX {
            let tile = self.tiles.holding(reached);
            let tile_end = tile.end().min(end);
            if tile.kind == Kind::Hole {
                self.tiles.split(reached);
                self.tiles.turn(reached, tile_end - reached, Kind::Gap);
            }
            reached = tile_end;
            if reached == end {
                break;
            }
        }
        assert_eq!(reached, end, "as many tiles as were found free");
        let touched = touched_before - self.touched_bytes();
        self.memory.retire(start, touched);
        touched
    }

    fn bytes_at(&self, offset: u64, kind: Kind) -> u64 {
        self.tiles.at(offset).and_then(|tile| tile.of(kind)).map_or(0, |tile| tile.bytes)
    }

    fn resize(&mut self, offset: u64, tag: Tag, bytes: u64) {
        self.used_bytes = self.used_bytes - tag.bytes + bytes;
        if tag.retired {
            self.retired_bytes = self.retired_bytes - tag.bytes + bytes;
        }
        self.write_tag(offset, Tag { bytes, ..tag });
    }

    /// Returns the tag of the block at `offset` after comparing it with the tile.
    fn checked_tag(&self, offset: u64) -> Tag {
        let tag = self.tag(offset);
        let kind = if tag.retired { Kind::Retired } else { Kind::Block };
        let expected = Tile { offset, bytes: tag.bytes, kind };
        assert_eq!(self.tiles.at(offset), Some(expected), "tag and tile at {offset:#x} differ");
        tag
    }

    fn tag(&self, offset: u64) -> Tag {
        let word = self.memory.word(offset + block::TAG).load(Ordering::Relaxed);
        match Tag::from_word(word, offset) {
            Some(tag) => tag,
            None => panic!("no block at {offset:#x}: its tag is {word:#018x}"),
        }
    }

    fn write_tag(&self, offset: u64, tag: Tag) {
        self.memory.word(offset + block::TAG).store(tag.to_word(offset), Ordering::Relaxed);
    }

    /// A freed block's tag is wiped, so that a second free of it is noticed.
    fn clear_tag(&self, offset: u64) {
        self.memory.word(offset + block::TAG).store(0, Ordering::Relaxed);
    }
}

fn block_size(bytes: u64) -> u64 {
    assert!(bytes > 0 && bytes <= Tag::BYTES_MAX, "a block of {bytes} bytes");
    bytes.next_multiple_of(LINE_BYTES)
}
