//! Extents: one contiguous block for each entry of 4 KiB and more.
//!
//! *Layout*: `extent/tag.rs` draws the two words of a block that the allocator owns,
//! `extent/holes.rs` keeps what is free, `extent/slide.rs` finds the blocks whose moves merge
//! holes, this file allocates.
//! *Invariants*: the region is tiled by blocks, holes and gaps. A hole is free memory that was
//! written before; a gap is memory that the system has not given yet or that was given back, whole
//! pages of 4 KiB. What is not in a hole or a gap is a block, so that the end of a hole that is not
//! the start of a gap is the start of a block. Adjacent holes are merged, adjacent gaps too.
//! *Not here*: the lock around an `ExtentSpace`, keys and values, pins, which entry to evict.
//!
//! Best fit, holes before gaps: memory that the process has is used before memory that the system
//! would have to give. See docs/decisions/0001-extents.md for what was measured.

mod holes;
mod slide;
mod tag;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::layout::{LINE_BYTES, block};
use crate::memory::{Memory, NeedRoom, Room};
use crate::words::move_words;

use holes::{HoleSet, Piece, RunMap};
use tag::Tag;

pub(crate) use slide::SLIDE_BYTES_MAX;
pub use slide::{SlideBudget, SlideStep};
pub use tag::Owner;

/// The granule in which the system gives memory and in which touched memory is counted.
const TOUCH_BYTES: u64 = 4096;
/// How many gaps are looked at before the last one, which is the largest, is taken.
const GAPS_TRIED_MAX: usize = 64;
/// How many pieces a segment's free memory may consist of for the segment to be given back.
const PIECES_PER_SEGMENT_MAX: usize = 64;

/// The allocator of the extent region. The caller serialises all calls.
pub(crate) struct ExtentSpace {
    memory: Arc<Memory>,
    base: u64,
    end: u64,
    holes: HoleSet,
    gaps: RunMap,
    /// Blocks that are never slid: retired ones, and those above [`SLIDE_BYTES_MAX`].
    fixed: BTreeSet<u64>,
    /// Which segments of the region the source has committed.
    committed: Vec<bool>,
    used_bytes: u64,
    retired_bytes: u64,
    block_count: u64,
    window: Option<slide::Window>,
    scan_from: u64,
}

impl ExtentSpace {
    /// Takes `base..end` of `memory`: whole segments, none committed yet.
    pub fn new(memory: Arc<Memory>, base: u64, end: u64) -> ExtentSpace {
        let segment = memory.segment_bytes();
        assert!(base < end, "an empty extent region");
        assert_eq!((base % segment, end % segment), (0, 0), "the region is whole segments");
        assert_eq!(segment % TOUCH_BYTES, 0, "a segment is whole pages");
        let mut gaps = RunMap::default();
        gaps.add(Piece { offset: base, bytes: end - base });
        ExtentSpace {
            committed: vec![false; ((end - base) / segment) as usize],
            memory,
            base,
            end,
            holes: HoleSet::default(),
            gaps,
            fixed: BTreeSet::new(),
            used_bytes: 0,
            retired_bytes: 0,
            block_count: 0,
            window: None,
            scan_from: base,
        }
    }

    /// Returns a block of at least `bytes`, its header line counted, owned by `owner`. Everything
    /// but the tag and the owner word is left as it was found.
    ///
    /// # Errors
    /// NeedRoom when no hole fits and the limit, the region or the system has no more memory.
    ///
    /// # Panics
    /// When `bytes` is 0 or above 256 GiB.
    pub fn allocate(&mut self, bytes: u64, owner: Owner, room: Room) -> Result<u64, NeedRoom> {
        let bytes = block_size(bytes);
        let hole = match self.holes.best_fit(bytes) {
            Some(hole) => hole,
            None => self.warm_up(bytes, room)?,
        };
        let piece = Piece { offset: hole.offset, bytes };
        self.holes.carve(piece);
        self.write_tag(piece.offset, Tag { bytes, retired: false });
        self.set_owner(piece.offset, owner);
        self.count(piece);
        Ok(piece.offset)
    }

    /// Frees the block at `offset`, a retired one too.
    ///
    /// # Panics
    /// When no block starts at `offset`.
    pub fn free(&mut self, offset: u64) {
        let tag = self.tag(offset);
        if tag.retired {
            self.retired_bytes -= tag.bytes;
        }
        self.uncount(Piece { offset, bytes: tag.bytes });
        self.clear_tag(offset);
        self.holes.add(Piece { offset, bytes: tag.bytes });
    }

    /// Makes the block at `offset` at least `bytes` large where it lies, from the free memory
    /// behind it. Returns false, with nothing changed, when there is too little of it.
    pub fn extend(&mut self, offset: u64, bytes: u64, room: Room) -> bool {
        let (tag, bytes) = (self.tag(offset), block_size(bytes));
        if bytes <= tag.bytes {
            return true;
        }
        let end = offset + tag.bytes;
        let missing = bytes - tag.bytes;
        let warm = self.holes.runs().starting_at(end).map_or(0, |hole| hole.bytes);
        if warm < missing {
            let Some(gap) = self.gaps.starting_at(end + warm) else { return false };
            let behind = self.holes.runs().starting_at(gap.end()).map_or(0, |hole| hole.bytes);
            let fits = warm + gap.bytes + behind >= missing;
            if !fits || self.touch(gap, end + missing, room).is_err() {
                return false;
            }
        }
        self.holes.carve(Piece { offset: end, bytes: missing });
        self.resize(offset, tag, bytes);
        true
    }

    /// Gives back what the block at `offset` has above `bytes`.
    pub fn shrink(&mut self, offset: u64, bytes: u64) {
        let (tag, bytes) = (self.tag(offset), block_size(bytes));
        if bytes < tag.bytes {
            self.resize(offset, tag, bytes);
            self.holes.add(Piece { offset: offset + bytes, bytes: tag.bytes - bytes });
        }
    }

    /// Marks the block at `offset` as unlinked: it is not slid any more and waits, counted apart,
    /// until the last pin is gone and it is freed.
    ///
    /// # Panics
    /// When no block starts at `offset` or it is retired already.
    pub fn retire(&mut self, offset: u64) {
        let tag = self.tag(offset);
        assert!(!tag.retired, "the block at {offset:#x} is retired twice");
        self.write_tag(offset, Tag { retired: true, ..tag });
        self.retired_bytes += tag.bytes;
        self.fixed.insert(offset);
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
    /// memory are gone or no segment is left; returns how much it was.
    pub fn retire_segments(&mut self, bytes: u64) -> u64 {
        let segment_bytes = self.memory.segment_bytes();
        let mut returned = 0;
        for index in (0..self.committed.len()).rev() {
            let segment =
                Piece { offset: self.base + index as u64 * segment_bytes, bytes: segment_bytes };
            if returned >= bytes {
                break;
            }
            if self.committed[index] && self.is_free(segment) {
                returned += self.retire_segment(index, segment);
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
        self.end - self.base - self.gaps.bytes()
    }

    /// Returns the bytes of all holes.
    pub fn free_bytes(&self) -> u64 {
        self.holes.runs().bytes()
    }

    /// Returns the size of the largest hole.
    pub fn largest_hole(&self) -> u64 {
        self.holes.largest_bytes()
    }

    /// Returns the number of holes.
    pub fn hole_count(&self) -> usize {
        self.holes.runs().len()
    }

    /// Returns the number of blocks, retired ones too.
    pub fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Touches as much of a gap as a block of `bytes` needs, and returns the hole that it makes
    /// with the holes on its sides. The lowest gap that suffices is taken, so that the upper end of
    /// the region stays empty.
    fn warm_up(&mut self, bytes: u64, room: Room) -> Result<Piece, NeedRoom> {
        let need = NeedRoom { bytes };
        let holes = self.holes.runs();
        let start_of =
            |gap: Piece| holes.ending_at(gap.offset).map_or(gap.offset, |hole| hole.offset);
        let end_of = |gap: Piece| holes.starting_at(gap.end()).map_or(gap.end(), Piece::end);
        let gap = self
            .gaps
            .from(self.base)
            .take(GAPS_TRIED_MAX)
            .chain(self.gaps.ending_at(self.end))
            .find(|&gap| end_of(gap) - start_of(gap) >= bytes)
            .ok_or(need)?;
        let start = start_of(gap);
        self.touch(gap, start + bytes, room).map_err(|_| need)?;
        Ok(self.holes.runs().starting_at(start).expect("the hole that was just made"))
    }

    /// Makes a hole of the pages of `gap` from its start up to `end`, which may lie behind it.
    fn touch(&mut self, gap: Piece, end: u64, room: Room) -> Result<(), NeedRoom> {
        let end = end.next_multiple_of(TOUCH_BYTES).min(gap.end());
        let piece = Piece { offset: gap.offset, bytes: end - gap.offset };
        self.memory.touch(piece.bytes, room)?;
        if let Err(need) = self.commit(piece) {
            self.memory.untouch(piece.bytes);
            return Err(need);
        }
        self.gaps.carve(piece);
        self.holes.add(piece);
        Ok(())
    }

    /// Commits the segments under `piece`. Where one fails, those before it stay: a committed
    /// segment that nobody writes costs no memory.
    fn commit(&mut self, piece: Piece) -> Result<(), NeedRoom> {
        let segment_bytes = self.memory.segment_bytes();
        let first = ((piece.offset - self.base) / segment_bytes) as usize;
        let last = ((piece.end() - 1 - self.base) / segment_bytes) as usize;
        for index in first..=last {
            if !self.committed[index] {
                self.memory.commit(self.base + index as u64 * segment_bytes)?;
                self.committed[index] = true;
            }
        }
        Ok(())
    }

    fn is_free(&self, segment: Piece) -> bool {
        let mut reached = segment.offset;
        for _ in 0..PIECES_PER_SEGMENT_MAX {
            let piece = self.holes.runs().holding(reached).or_else(|| self.gaps.holding(reached));
            match piece {
                Some(piece) if piece.end() >= segment.end() => return true,
                Some(piece) => reached = piece.end(),
                None => return false,
            }
        }
        false
    }

    /// Turns a free segment into a gap and returns how much of it was touched.
    fn retire_segment(&mut self, index: usize, segment: Piece) -> u64 {
        let mut touched = 0;
        let mut reached = segment.offset;
        for _ in 0..PIECES_PER_SEGMENT_MAX {
            if reached == segment.end() {
                break;
            }
            if let Some(gap) = self.gaps.holding(reached) {
                reached = gap.end().min(segment.end());
                continue;
            }
            let hole = self.holes.runs().holding(reached).expect("the segment is free");
            let end = hole.end().min(segment.end());
            let piece = Piece { offset: reached, bytes: end - reached };
            self.holes.carve(piece);
            self.gaps.add(piece);
            touched += piece.bytes;
            reached = end;
        }
        assert_eq!(reached, segment.end(), "as many pieces as were found free");
        self.memory.retire(segment.offset, touched);
        self.committed[index] = false;
        touched
    }

    fn resize(&mut self, offset: u64, tag: Tag, bytes: u64) {
        self.uncount(Piece { offset, bytes: tag.bytes });
        self.count(Piece { offset, bytes });
        if tag.retired {
            self.retired_bytes = self.retired_bytes - tag.bytes + bytes;
            self.fixed.insert(offset);
        }
        self.write_tag(offset, Tag { bytes, ..tag });
    }

    fn count(&mut self, piece: Piece) {
        self.used_bytes += piece.bytes;
        self.block_count += 1;
        if piece.bytes > SLIDE_BYTES_MAX {
            self.fixed.insert(piece.offset);
        }
    }

    fn uncount(&mut self, piece: Piece) {
        self.used_bytes -= piece.bytes;
        self.block_count -= 1;
        self.fixed.remove(&piece.offset);
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
