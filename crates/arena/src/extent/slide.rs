//! Sliding: which blocks to move down so that the holes between them become one.
//!
//! A window is a run of neighbouring holes and the blocks between them. Moving each of those blocks
//! down once leaves one hole with all of the window's free memory at its upper end. The cheapest
//! window that yields enough is slid block by block; between two blocks the world may change, so
//! that each step starts by looking again.

use super::holes::Piece;
use super::{ExtentSpace, Owner, Tag, move_words};

/// The most bytes of neighbours that are moved for one call of `reserve`; a larger block is never
/// moved. At 5 GB/s, memory that no cache holds, this is under a millisecond.
pub(crate) const SLIDE_BYTES_MAX: u64 = 4 << 20;
/// The most holes that one search for a window looks at.
const SCAN_HOLES_MAX: usize = 4096;
/// How many blocks that cannot be moved now one round remembers.
const AVOID_MAX: usize = 16;
/// The most steps of one round: small blocks are cheap to copy, but each step takes two locks.
const STEPS_MAX: u32 = 1024;

/// What one call of `reserve` may still move.
#[derive(Clone, Debug)]
pub struct SlideBudget {
    bytes: u64,
    steps: u32,
    avoid: [u64; AVOID_MAX],
    avoid_count: usize,
}

impl SlideBudget {
    /// Returns the budget of one round: [`SLIDE_BYTES_MAX`].
    pub fn new() -> SlideBudget {
        SlideBudget {
            bytes: SLIDE_BYTES_MAX,
            steps: STEPS_MAX,
            avoid: [0; AVOID_MAX],
            avoid_count: 0,
        }
    }

    /// Keeps the block of `step`, which is pinned, out of the rest of this round. When more blocks
    /// are pinned than a round remembers, the round is over.
    pub fn avoid(&mut self, step: &SlideStep) {
        if self.avoid_count == AVOID_MAX {
            self.steps = 0;
            return;
        }
        self.avoid[self.avoid_count] = step.offset;
        self.avoid_count += 1;
    }

    fn avoids_between(&self, start: u64, end: u64) -> bool {
        self.avoid[..self.avoid_count].iter().any(|offset| (start..end).contains(offset))
    }
}

/// A block that is to be moved down into the hole before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlideStep {
    /// Where the block lies.
    pub offset: u64,
    /// Who refers to it.
    pub owner: Owner,
}

/// The window that is being slid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    start: u64,
    end: u64,
}

impl ExtentSpace {
    /// Returns the next block to move so that a hole of `bytes` comes to exist, and charges it to
    /// `budget`; or `None` when there is such a hole already, or none is to be had with what is
    /// left of the budget: then the caller evicts. Changes no block.
    pub fn plan(&mut self, bytes: u64, budget: &mut SlideBudget) -> Option<SlideStep> {
        let bytes = super::block_size(bytes);
        if self.holes.largest_bytes() >= bytes || self.free_bytes() < bytes || budget.steps == 0 {
            return None;
        }
        let window = match self.window.filter(|&window| self.yields(window, bytes, budget)) {
            Some(window) => window,
            None => self.find_window(bytes, budget)?,
        };
        self.window = Some(window);
        let hole = self.holes.runs().starting_at(window.start).expect("a window starts in a hole");
        let moved_bytes = self.tag(hole.end()).bytes;
        budget.bytes -= moved_bytes;
        budget.steps -= 1;
        Some(SlideStep { offset: hole.end(), owner: self.owner(hole.end()) })
    }

    /// Returns whether `step` is still possible: the same owner's block at the same place, not
    /// retired, behind a hole. Between this and [`ExtentSpace::slide`] the caller keeps the lock.
    pub fn can_slide(&self, step: &SlideStep) -> bool {
        self.slide_target(step).is_some()
    }

    /// Moves the block of `step` down into the hole before it, and returns where it is now; `None`,
    /// with nothing changed, when the world has changed and [`ExtentSpace::can_slide`] is false.
    ///
    /// The caller holds the lock of the owner's shard, has marked the descriptor as changing, knows
    /// that nobody has pinned the block, and stores the new offset in the descriptor afterwards.
    pub fn slide(&mut self, step: &SlideStep) -> Option<u64> {
        let (target, tag) = self.slide_target(step)?;
        // SAFETY: both ranges lie in `target.offset..step.offset + tag.bytes`, a hole and the block
        // behind it, which is committed memory; offsets and size are multiples of 64. The hole is
        // ours by the caller's lock on this allocator, the block by that of its shard.
        unsafe {
            let source = self.memory.pointer(step.offset);
            move_words(self.memory.pointer(target.offset), source, tag.bytes);
        }
        self.write_tag(target.offset, tag);
        self.holes.carve(target);
        self.holes.add(Piece { offset: target.offset + tag.bytes, bytes: target.bytes });
        if let Some(window) = self.window.as_mut().filter(|window| window.start == target.offset) {
            window.start = target.offset + tag.bytes;
        }
        Some(target.offset)
    }

    /// Returns the hole before the block of `step`, and the block's tag.
    fn slide_target(&self, step: &SlideStep) -> Option<(Piece, Tag)> {
        // What follows a hole is a gap, the end of the region, or the start of a block.
        let hole = self.holes.runs().ending_at(step.offset)?;
        if step.offset == self.end || self.gaps.starting_at(step.offset).is_some() {
            return None;
        }
        let tag = self.tag(step.offset);
        let movable = !tag.retired && tag.bytes <= SLIDE_BYTES_MAX;
        (movable && self.owner(step.offset) == step.owner).then_some((hole, tag))
    }

    /// Returns whether `window` still leads to a hole of `bytes` within `budget`.
    fn yields(&self, window: Window, bytes: u64, budget: &SlideBudget) -> bool {
        let mut free = 0;
        let mut last_end = window.start;
        for hole in self.holes.runs().from(window.start).take(SCAN_HOLES_MAX) {
            if hole.offset >= window.end {
                break;
            }
            if free == 0 && hole.offset != window.start {
                return false;
            }
            if free > 0 && self.is_barred(last_end, hole.offset, budget) {
                return false;
            }
            free += hole.bytes;
            last_end = hole.end();
            if free >= bytes {
                return last_end - window.start - free <= budget.bytes;
            }
        }
        false
    }

    /// Returns the window that yields `bytes` with the fewest bytes moved, at most what `budget`
    /// has, among the next [`SCAN_HOLES_MAX`] holes. A larger region is searched piece by piece,
    /// one piece a call.
    fn find_window(&mut self, bytes: u64, budget: &SlideBudget) -> Option<Window> {
        let runs = self.holes.runs();
        let start = if runs.len() <= SCAN_HOLES_MAX { self.base } else { self.scan_from };
        let mut tails = runs.from(start);
        let mut tail = tails.next()?;
        let mut free = 0;
        let mut previous_end = tail.offset;
        let mut best: Option<(u64, Window)> = None;
        self.scan_from = self.base;
        for (index, head) in runs.from(start).enumerate() {
            if index == SCAN_HOLES_MAX {
                self.scan_from = head.offset;
                break;
            }
            if free > 0 && self.is_barred(previous_end, head.offset, budget) {
                // The window starts anew behind the block that stays.
                free = 0;
                while tail.offset < head.offset {
                    tail = tails.next().expect("the tail comes no further than the head");
                }
            }
            free += head.bytes;
            previous_end = head.end();
            while free - tail.bytes >= bytes {
                free -= tail.bytes;
                tail = tails.next().expect("the tail comes no further than the head");
            }
            let cost = head.end() - tail.offset - free;
            let limit = best.map_or(budget.bytes + 1, |(cost, _)| cost);
            if free >= bytes && cost < limit {
                best = Some((cost, Window { start: tail.offset, end: head.end() }));
            }
        }
        best.map(|(_, window)| window)
    }

    /// Returns whether something between two neighbouring holes cannot be moved.
    fn is_barred(&self, start: u64, end: u64, budget: &SlideBudget) -> bool {
        self.fixed.range(start..end).next().is_some()
            || self.gaps.starting_at(start).is_some()
            || self.gaps.ending_at(end).is_some()
            || self.gaps.from(start).next().is_some_and(|gap| gap.offset < end)
            || budget.avoids_between(start, end)
    }
}
