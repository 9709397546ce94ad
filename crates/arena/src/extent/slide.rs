//! Sliding: which blocks to move so that the holes around them become one that is large enough.
//!
//! A window is a run of neighbouring tiles. Its free memory becomes one hole when each block in it
//! leaves: a block for which a hole of nearly its size exists elsewhere goes there, which frees its
//! own place too; any other block slides down into the hole before it. Of all windows, the one in
//! which sliding moves the fewest bytes is chosen, and its blocks are moved one by one. Between two
//! blocks the caller releases all locks and anything may change, so that each step searches anew.

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use super::bins::bin_of;
use super::{BlockOwner, ExtentSpace, Kind, Tag, Tile, TileId, Tiles, block_size};
use crate::atomic_copy::move_words;
use crate::mapped_range::LimitPolicy;
use crate::sequence;

/// The most bytes that one round slides, whatever is wanted. At 5 GB/s, memory that no cache holds,
/// this is under a millisecond.
const SLIDE_BYTES_MAX: u64 = 4 << 20;
/// The largest block that is ever moved, where there is no other way: some 7 ms, during which its
/// shard and this allocator are locked.
pub(super) const MOVED_BYTES_MAX: u64 = 32 << 20;
/// What a round may move however little is wanted: the hole serves the next ones too.
const SLIDE_BYTES_MIN: u64 = 64 << 10;
/// The most steps of one round: small blocks are cheap to copy, but each step takes two locks.
const STEPS_MAX: u32 = 256;
/// How many blocks that cannot be moved now one round remembers.
const AVOID_MAX: usize = 16;
/// How many tiles one search looks at; a window that was found by then is taken.
pub(super) const SCAN_TILES: usize = 1024;
/// How many free tiles are passed from the end of the region down to its last block.
const TOP_TILES_MAX: usize = 4 * SCAN_TILES;
/// How many it looks at while it finds none.
pub(super) const SCAN_TILES_MAX: usize = 4 * SCAN_TILES;

/// What one round, a call of `reserve`, has moved so far. It may move as many bytes as it makes
/// room for, yet at least 64 KiB and at most 4 MiB: above that, evicting is cheaper.
#[derive(Clone, Debug)]
pub struct SlideBudget {
    moved_bytes: u64,
    steps: u32,
    avoid: [u64; AVOID_MAX],
    avoid_count: usize,
}

impl SlideBudget {
    /// Returns the budget of a new round.
    #[expect(clippy::new_without_default, reason = "a budget is granted, not defaulted")]
    pub fn new() -> SlideBudget {
        SlideBudget { moved_bytes: 0, steps: 0, avoid: [0; AVOID_MAX], avoid_count: 0 }
    }

    /// Keeps the block of `step`, which is pinned, out of the rest of this round. When more blocks
    /// are pinned than a round remembers, the round is over.
    pub fn avoid(&mut self, step: &SlideStep) {
        if self.avoid_count == AVOID_MAX {
            self.steps = STEPS_MAX;
            return;
        }
        self.avoid[self.avoid_count] = step.offset;
        self.avoid_count += 1;
    }

    /// Returns how many bytes may still be moved to make room for `bytes`.
    fn left(&self, bytes: u64) -> u64 {
        bytes.clamp(SLIDE_BYTES_MIN, SLIDE_BYTES_MAX).saturating_sub(self.moved_bytes)
    }

    fn moves(&self, tile: Tile) -> bool {
        tile.kind == Kind::Block
            && tile.bytes <= SLIDE_BYTES_MAX
            && !self.avoid[..self.avoid_count].contains(&tile.offset)
    }
}

/// A block that is to be moved: down into the hole before it, or into a hole elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlideStep {
    /// Where the block lies.
    pub offset: u64,
    /// Who refers to it.
    pub owner: BlockOwner,
    bytes: u64,
    block: TileId,
    target: u64,
    hole: TileId,
}

/// What is to be done with the last block of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopStep {
    /// It goes into a hole further down.
    Move(SlideStep),
    /// No hole holds it, or it is too large to be moved.
    Stuck {
        /// Where the block lies.
        offset: u64,
        /// Who refers to it.
        owner: BlockOwner,
        /// Its size.
        bytes: u64,
        /// Whether a hole of that size would do.
        is_movable: bool,
    },
    /// There is none, or nothing refers to it: it waits for its pins, or for its value.
    Nothing,
}

impl TopStep {
    /// Returns where the block lies.
    pub fn place(&self) -> Option<Range<u64>> {
        let (offset, bytes) = match *self {
            TopStep::Move(SlideStep { offset, bytes, .. }) => (offset, bytes),
            TopStep::Stuck { offset, bytes, .. } => (offset, bytes),
            TopStep::Nothing => return None,
        };
        Some(offset..offset + bytes)
    }
}

/// What is in the way where a part of the region is to become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Nothing: it is free, if the limit lets so much of it be touched.
    None {
        /// The bytes of it that the system has yet to give.
        untouched_bytes: u64,
    },
    /// A block, with which this is to be done.
    Block(TopStep),
}

/// A tile and what it adds to a window: free memory, and bytes to move.
#[derive(Clone, Copy)]
pub(super) struct Weighed {
    id: TileId,
    gain: u64,
    cost: u64,
}

impl Weighed {
    /// The cost of what does not move.
    const FIXED: u64 = u64::MAX;

    /// Stands between the end of the region and its start.
    fn wall() -> Weighed {
        Weighed { id: Tiles::FIRST, gain: 0, cost: Weighed::FIXED }
    }
}

impl ExtentSpace {
    /// Returns the next block to move so that a hole of `bytes` comes to exist, and charges it to
    /// `budget`; or `None` when there is such a hole already, or none is to be had with what is
    /// left of the budget: then the caller evicts. Changes no block. Costs a walk over at most
    /// [`SCAN_TILES_MAX`] tiles.
    pub fn plan(&mut self, bytes: u64, budget: &mut SlideBudget) -> Option<SlideStep> {
        let bytes = block_size(bytes);
        let has_hole = self.tiles.best_fit(bytes).is_some();
        if has_hole || self.free_bytes() < bytes || budget.steps == STEPS_MAX {
            return None;
        }
        let window = self.find_window(bytes, budget)?;
        let (block, hole) = self.next_move(&self.line[window], budget)?;
        let (tile, target) = (self.tiles.get(block), self.tiles.get(hole).offset);
        budget.moved_bytes += tile.bytes;
        budget.steps += 1;
        let owner = self.owner(tile.offset);
        Some(SlideStep { offset: tile.offset, owner, bytes: tile.bytes, block, target, hole })
    }

    /// Returns how to take the last block that starts before `below` away from the end of the
    /// region, so that the segments there become free.
    pub fn plan_top(&self, below: u64) -> TopStep {
        let before = |&id: &TileId| self.tiles.previous(id);
        let ids = std::iter::successors(Some(self.tiles.last()), before).take(TOP_TILES_MAX);
        let mut tiles = ids.map(|id| (id, self.tiles.get(id)));
        let Some((block, tile)) = tiles.find(|(_, tile)| !tile.is_free() && tile.offset < below)
        else {
            return TopStep::Nothing;
        };
        if tile.kind != Kind::Block {
            return TopStep::Nothing;
        }
        let owner = self.owner(tile.offset);
        let is_movable = tile.bytes <= MOVED_BYTES_MAX;
        let largest =
            Some(self.tiles.largest_hole()).filter(|&most| is_movable && most >= tile.bytes);
        let mut holes =
            largest.into_iter().flat_map(|most| self.tiles.holes_between(tile.bytes, most));
        match holes.find(|(_, hole)| hole.offset < tile.offset) {
            Some((hole, Tile { offset: target, .. })) => {
                let Tile { offset, bytes, .. } = tile;
                TopStep::Move(SlideStep { offset, owner, bytes, block, target, hole })
            }
            None => TopStep::Stuck { offset: tile.offset, owner, bytes: tile.bytes, is_movable },
        }
    }

    /// Returns what is in the way of the block at `offset` becoming `bytes` large where it lies:
    /// the first block behind it goes to a hole beyond what is wanted, or to the end of the region.
    /// [`TopStep::Nothing`] is what cannot be moved, or the end of the region.
    pub fn plan_extension(&mut self, offset: u64, bytes: u64) -> Obstacle {
        let Some((id, _)) = self.block_at(offset) else {
            return Obstacle::Block(TopStep::Nothing);
        };
        let end = offset + block_size(bytes);
        match self.free_up_to(id, end) {
            Ok(untouched_bytes) => Obstacle::None { untouched_bytes },
            Err(Some(block)) => {
                let tile = self.tiles.get(block);
                Obstacle::Block(self.plan_away(block, tile, offset..end))
            }
            Err(None) => Obstacle::Block(TopStep::Nothing),
        }
    }

    /// Returns how to take `block` away from within `window`.
    pub(super) fn plan_away(&mut self, block: TileId, tile: Tile, window: Range<u64>) -> TopStep {
        if tile.kind != Kind::Block {
            return TopStep::Nothing;
        }
        let Tile { offset, bytes, .. } = tile;
        let owner = self.owner(offset);
        if bytes > MOVED_BYTES_MAX {
            return TopStep::Stuck { offset, owner, bytes, is_movable: false };
        }
        let is_outside = |hole: &Tile| hole.end() <= window.start || hole.offset >= window.end;
        let largest = self.tiles.largest_hole();
        let hole = match bytes <= largest {
            true => self.tiles.holes_between(bytes, largest).find(|(_, hole)| is_outside(hole)),
            false => None,
        };
        let hole = hole.map(|(id, _)| id);
        let place = hole.or_else(|| {
            let gap = self.tiles.last();
            let gap_tile = self.tiles.get(gap);
            let fits = gap_tile.kind == Kind::Gap
                && gap_tile.offset >= window.end
                && gap_tile.bytes >= bytes;
            // A hole before it becomes one with what is touched.
            fits.then(|| self.touch(gap, gap_tile.offset + bytes, LimitPolicy::Limited).ok())
                .flatten()
        });
        match place.filter(|&hole| is_outside(&self.tiles.get(hole))) {
            Some(hole) => {
                let target = self.tiles.get(hole).offset;
                TopStep::Move(SlideStep { offset, owner, bytes, block, target, hole })
            }
            None => TopStep::Stuck { offset, owner, bytes, is_movable: true },
        }
    }

    /// Moves the block of `step` and returns where it is now; `None`, with nothing changed, when
    /// the same owner's block is no longer there or its new place is taken.
    ///
    /// The caller holds the lock of the owner's shard, has marked the descriptor as changing, knows
    /// that nobody has pinned the block, and stores the new offset in the descriptor afterwards.
    pub fn slide(&mut self, step: &SlideStep) -> Option<u64> {
        let is = |tile: &Tile, kind| tile.kind == kind;
        let block = self.tiles.check(step.block, step.offset).filter(|it| is(it, Kind::Block))?;
        let hole = self.tiles.check(step.hole, step.target).filter(|it| is(it, Kind::Hole))?;
        let slides = hole.end() == block.offset;
        let fits = slides || hole.bytes >= block.bytes;
        if !fits || block.bytes > MOVED_BYTES_MAX || self.owner(block.offset) != step.owner {
            return None;
        }
        assert_eq!(self.block(block.offset), (step.block, block), "the tag names another tile");
        sequence::before_reuse::<AtomicU64>();
        // SAFETY: the block is committed memory, and so is a hole of its size, or the hole before
        // it together with the block itself. Offsets and size are multiples of 64. Nobody else
        // writes the hole, which the caller's lock on this allocator guards, nor the block, which
        // the lock of its shard guards.
        unsafe {
            let source = self.memory.pointer(block.offset);
            move_words(self.memory.pointer(hole.offset), source, block.bytes);
        }
        // A hole that ends at the block overlaps the block's new place: the two must be one first.
        // Any other is taken first, because the block's old place may merge with what is left.
        let tile = if slides {
            let merged = self.tiles.turn(step.block, block.bytes, Kind::Hole);
            self.tiles.turn(merged, block.bytes, Kind::Block)
        } else {
            let taken = self.tiles.turn(step.hole, block.bytes, Kind::Block);
            self.tiles.turn(step.block, block.bytes, Kind::Hole);
            taken
        };
        self.write_tag(hole.offset, Tag { bytes: block.bytes, tile });
        Some(hole.offset)
    }

    /// Returns the cheapest window that yields `bytes`, as a part of `line`, among the tiles that
    /// follow those of the last search.
    fn find_window(&mut self, bytes: u64, budget: &SlideBudget) -> Option<Range<usize>> {
        let mut search = Search { line: std::mem::take(&mut self.line), ..Search::default() };
        search.line.clear();
        search.limit = budget.left(bytes);
        let mut id = self.tiles.cursor();
        for count in 1..=self.tiles.len().min(SCAN_TILES_MAX) {
            search.push(self.weighed(id, bytes, budget), bytes);
            id = self.tiles.next(id).unwrap_or_else(|| {
                search.push(Weighed::wall(), bytes);
                Tiles::FIRST
            });
            if count.is_multiple_of(SCAN_TILES) && search.best.is_some() {
                break;
            }
        }
        self.tiles.set_cursor(id);
        self.line = search.line;
        search.best
    }

    fn weighed(&self, id: TileId, bytes: u64, budget: &SlideBudget) -> Weighed {
        let tile = self.tiles.get(id);
        let (gain, cost) = match tile.kind {
            Kind::Hole => (tile.bytes, 0),
            Kind::Block if !budget.moves(tile) => (0, Weighed::FIXED),
            Kind::Block if tile.bytes < bytes && self.has_place(tile.bytes) => {
                (tile.bytes, tile.bytes)
            }
            Kind::Block => (0, tile.bytes),
            Kind::Gap | Kind::Retired | Kind::Reserved => (0, Weighed::FIXED),
        };
        Weighed { id, gain, cost }
    }

    /// Returns whether there are holes that a block of `bytes` nearly fills, as far as their bins
    /// say: those of its own bin may be too small, those of the limit's bin too large.
    fn has_place(&self, bytes: u64) -> bool {
        self.tiles.has_hole_in(bin_of(bytes) + 1..bin_of(fit_limit(bytes)))
    }

    /// Returns the block of `window` that moves next, and the hole that it goes to: those that fit
    /// elsewhere first, then from the lowest on those behind a hole.
    fn next_move(&self, window: &[Weighed], budget: &SlideBudget) -> Option<(TileId, TileId)> {
        let tile = |weighed: &Weighed| self.tiles.get(weighed.id);
        let (start, end) = (tile(window.first()?).offset, tile(window.last()?).end());
        for candidate in window.iter().filter(|it| it.gain > 0 && it.cost > 0) {
            let bytes = tile(candidate).bytes;
            let (place, _) = self
                .tiles
                .holes_between(bytes, fit_limit(bytes))
                .filter(|(_, hole)| hole.offset < start || hole.offset >= end)
                .min_by_key(|(_, hole)| hole.bytes)
                .unzip();
            if let Some(place) = place {
                return Some((candidate.id, place));
            }
        }
        let hole = window.iter().find(|it| it.cost == 0)?.id;
        let block = self.tiles.next(hole)?;
        let behind = self.tiles.get(block);
        (behind.end() < end && budget.moves(behind)).then_some((block, hole))
    }
}

/// The search for the cheapest window, tile by tile.
#[derive(Default)]
struct Search {
    line: Vec<Weighed>,
    /// The window that ends with the last tile: where it starts, and its sums.
    tail: usize,
    gain: u64,
    cost: u64,
    best: Option<Range<usize>>,
    /// The cost of the best window; before there is one, the most that one may cost.
    limit: u64,
}

impl Search {
    fn push(&mut self, weighed: Weighed, bytes: u64) {
        self.line.push(weighed);
        if weighed.cost == Weighed::FIXED {
            (self.tail, self.gain, self.cost) = (self.line.len(), 0, 0);
            return;
        }
        self.gain += weighed.gain;
        self.cost += weighed.cost;
        // What only costs, and what the window yields enough without, is left out at its start.
        while let Some(first) = self.line[..self.line.len() - 1].get(self.tail)
            && (first.gain == 0 || self.gain - first.gain >= bytes)
        {
            self.gain -= first.gain;
            self.cost -= first.cost;
            self.tail += 1;
        }
        if self.gain >= bytes && self.cost <= self.limit {
            self.best = Some(self.tail..self.line.len());
            self.limit = self.cost;
        }
    }
}

/// Returns the largest hole that a block of `bytes` may be moved into: what is left over is too
/// small to matter.
fn fit_limit(bytes: u64) -> u64 {
    bytes + bytes / 16 + 1024
}
