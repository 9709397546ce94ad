//! Sliding: which blocks to move so that the holes around them become one that is large enough.
//!
//! A window is a run of neighbouring tiles. Its free memory becomes one hole when each block in it
//! leaves: a block for which a hole of nearly its size exists elsewhere goes there, which frees its
//! own place too; any other block slides down into the hole before it. The window in which sliding
//! moves the fewest bytes is worked off block by block. Between two blocks the caller lets go of
//! all locks and the world may change, so that each step looks again.

use super::{ExtentSpace, Kind, Owner, Tag, Tile, Tiles, block_size};
use crate::words::move_words;

/// The most bytes that are moved for one call of `reserve`; a larger block is never moved. At
/// 5 GB/s, memory that no cache holds, this is under a millisecond.
const SLIDE_BYTES_MAX: u64 = 4 << 20;
/// The most bytes that sliding may cost for each byte of room: above it evicting is cheaper.
const SLIDE_COST_MAX: u64 = 2;
/// What sliding may cost however little room is wanted: the hole serves the next ones too.
const SLIDE_COST_FLOOR: u64 = 256 << 10;
/// The most steps of one round: small blocks are cheap to copy, but each step takes two locks.
const STEPS_MAX: u32 = 256;
/// How many blocks that cannot be moved now one round remembers.
const AVOID_MAX: usize = 16;
/// The most tiles that one search for a window looks at.
const SCAN_TILES_MAX: usize = 4096;
/// How many holes are tried as a block's new place.
const PLACES_TRIED_MAX: usize = 8;

/// What one call of `reserve` may still move.
#[derive(Clone, Debug)]
pub struct SlideBudget {
    bytes: u64,
    steps: u32,
    avoid: [u64; AVOID_MAX],
    avoid_count: usize,
}

impl SlideBudget {
    /// Returns the budget of one round: 4 MiB.
    #[expect(clippy::new_without_default, reason = "a budget is granted, not defaulted")]
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
    pub owner: Owner,
    /// Where it goes: the start of a hole.
    target: u64,
}

/// What the planner remembers between two steps.
pub(super) struct Planner {
    window: Option<Window>,
    scan_from: u64,
    places: Places,
}

impl Planner {
    pub fn new(base: u64) -> Planner {
        Planner { window: None, scan_from: base, places: Places::new() }
    }
}

/// A run of tiles that becomes one hole and the blocks that slid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    start: u64,
    end: u64,
}

impl Window {
    fn tiles(self, tiles: &Tiles) -> impl Iterator<Item = Tile> {
        let first = tiles.holding(self.start).offset;
        tiles.from(first).take(SCAN_TILES_MAX).take_while(move |tile| tile.offset < self.end)
    }
}

impl ExtentSpace {
    /// Returns the next block to move so that a hole of `bytes` comes to exist, and charges it to
    /// `budget`; or `None` when there is such a hole already, or none is to be had with what is
    /// left of the budget: then the caller evicts. Changes no block.
    pub fn plan(&mut self, bytes: u64, budget: &mut SlideBudget) -> Option<SlideStep> {
        let bytes = block_size(bytes);
        let has_hole = self.largest_hole() >= bytes;
        if has_hole || self.free_bytes() < bytes || budget.steps == 0 {
            return None;
        }
        self.planner.places.forget();
        let window = self.planner.window.filter(|&window| self.still_yields(window, bytes, budget));
        let window = window.or_else(|| self.find_window(bytes, budget));
        self.planner.window = window;
        let (block, target) = self.next_move(window?, budget)?;
        budget.bytes = budget.bytes.checked_sub(block.bytes)?;
        budget.steps -= 1;
        Some(SlideStep { offset: block.offset, owner: self.owner(block.offset), target })
    }

    /// Moves the block of `step` and returns where it is now; `None`, with nothing changed, when
    /// the same owner's block is no longer there or its new place is taken.
    ///
    /// The caller holds the lock of the owner's shard, has marked the descriptor as changing, knows
    /// that nobody has pinned the block, and stores the new offset in the descriptor afterwards.
    pub fn slide(&mut self, step: &SlideStep) -> Option<u64> {
        let block = self.tiles.at(step.offset)?.of(Kind::Block)?;
        let hole = self.tiles.at(step.target)?.of(Kind::Hole)?;
        let fits = hole.end() == block.offset || hole.bytes >= block.bytes;
        if !fits || block.bytes > SLIDE_BYTES_MAX || self.owner(block.offset) != step.owner {
            return None;
        }
        let tag = self.checked_tag(block.offset);
        self.clear_tag(block.offset);
        // SAFETY: the block is committed memory, and so is a hole of its size, or the hole before it
        // together with the block itself. Offsets and size are multiples of 64. Nobody else writes
        // the hole, which the caller's lock on this allocator guards, nor the block, which the lock
        // of its shard guards.
        unsafe {
            let source = self.memory.pointer(block.offset);
            move_words(self.memory.pointer(hole.offset), source, block.bytes);
        }
        // A hole that ends at the block overlaps the block's new place: the two must be one first.
        // Any other is taken first, because the block's old place may merge with what is left.
        if hole.end() == block.offset {
            self.tiles.turn(block.offset, block.bytes, Kind::Hole);
            self.tiles.turn(hole.offset, block.bytes, Kind::Block);
        } else {
            self.tiles.turn(hole.offset, block.bytes, Kind::Block);
            self.tiles.turn(block.offset, block.bytes, Kind::Hole);
        }
        self.write_tag(hole.offset, Tag { bytes: block.bytes, retired: false });
        if let Some(window) = self.planner.window.as_mut()
            && (window.start..window.end).contains(&hole.offset)
        {
            // What has slid to the lower end is done.
            window.start = hole.offset + tag.bytes;
        }
        Some(hole.offset)
    }

    /// Returns the cheapest window that yields `bytes` within `budget` among the next
    /// [`SCAN_TILES_MAX`] tiles. A larger region is searched piece by piece, one piece a call.
    fn find_window(&mut self, bytes: u64, budget: &SlideBudget) -> Option<Window> {
        let whole = self.tiles.len() <= SCAN_TILES_MAX;
        let start = if whole { self.base } else { self.planner.scan_from };
        let start = self.tiles.holding(start).offset;
        let limit = SLIDE_COST_FLOOR.max(SLIDE_COST_MAX * bytes).min(budget.bytes);
        let mut best: Option<(u64, Window)> = None;
        let mut tally = Tally::default();
        let places = &mut self.planner.places;
        let mut tails = self.tiles.from(start).peekable();
        self.planner.scan_from = self.base;
        for (index, head) in self.tiles.from(start).enumerate() {
            if index == SCAN_TILES_MAX {
                self.planner.scan_from = head.offset;
                break;
            }
            if !matches!(head.kind, Kind::Hole) && !budget.moves(head) {
                // The window starts anew behind what stays where it is.
                tally = Tally::default();
                tails = self.tiles.from(head.end()).peekable();
                continue;
            }
            let weight = places.weigh(&self.tiles, head, bytes);
            tally.push(weight);
            while let Some(&tail) = tails.peek()
                && tail.offset < head.offset
                && tally.drops(places.weigh(&self.tiles, tail, bytes), bytes)
            {
                tails.next();
            }
            let cheaper = tally.cost <= limit && best.is_none_or(|(cost, _)| tally.cost < cost);
            if tally.gain >= bytes && cheaper {
                let tail = tails.peek().expect("the tail is not beyond the head");
                best = Some((tally.cost, Window { start: tail.offset, end: head.end() }));
            }
        }
        best.map(|(_, window)| window)
    }

    /// Returns whether `window` still yields `bytes` within what is left of `budget`.
    fn still_yields(&mut self, window: Window, bytes: u64, budget: &SlideBudget) -> bool {
        let mut tally = Tally::default();
        let places = &mut self.planner.places;
        for tile in window.tiles(&self.tiles) {
            if tile.kind != Kind::Hole && !budget.moves(tile) {
                return false;
            }
            let weight = places.weigh(&self.tiles, tile, bytes);
            if tally.gain > 0 || weight.gain > 0 {
                tally.push(weight);
            }
        }
        tally.gain >= bytes && tally.cost <= budget.bytes
    }

    /// Returns the block of `window` that moves next, and where to: those that fit elsewhere first,
    /// then from the lowest on those behind a hole.
    fn next_move(&self, window: Window, budget: &SlideBudget) -> Option<(Tile, u64)> {
        for tile in window.tiles(&self.tiles).filter(|&tile| budget.moves(tile)) {
            let outside = |place: &Tile| place.end() <= window.start || place.offset >= window.end;
            let places = self.tiles.holes_of(tile.bytes).take(PLACES_TRIED_MAX);
            let mut fitting = places.take_while(|place| place.bytes <= fit_limit(tile.bytes));
            if let Some(place) = fitting.find(outside) {
                return Some((tile, place.offset));
            }
        }
        let hole = window.tiles(&self.tiles).find(|tile| tile.kind == Kind::Hole)?;
        let block = self.tiles.at(hole.end()).filter(|&tile| budget.moves(tile))?;
        (block.end() < window.end).then_some((block, hole.offset))
    }
}

/// What a tile adds to a window: free memory, and bytes to move.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    gain: u64,
    cost: u64,
}

/// The sum of a window's weights.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    gain: u64,
    cost: u64,
}

impl Tally {
    fn push(&mut self, weight: Weight) {
        self.gain += weight.gain;
        self.cost += weight.cost;
    }

    /// Drops a tile from the lower end when the window yields `bytes` without it, or when it only
    /// costs; returns whether it did.
    fn drops(&mut self, weight: Weight, bytes: u64) -> bool {
        let needless = weight.gain == 0 || self.gain - weight.gain >= bytes;
        if needless {
            self.gain -= weight.gain;
            self.cost -= weight.cost;
        }
        needless
    }
}

/// For each class of sizes the smallest hole in it, looked up once a plan.
struct Places {
    smallest: Vec<u64>,
}

impl Places {
    /// Steps within each power of two.
    const STEPS_LOG2: u32 = 5;
    const CLASS_COUNT: usize = 64 << Places::STEPS_LOG2;
    const UNKNOWN: u64 = u64::MAX;

    fn new() -> Places {
        Places { smallest: vec![Places::UNKNOWN; Places::CLASS_COUNT] }
    }

    fn forget(&mut self) {
        self.smallest.fill(Places::UNKNOWN);
    }

    /// Returns what `tile` adds to a window from which a hole of `bytes` is wanted.
    fn weigh(&mut self, tiles: &Tiles, tile: Tile, bytes: u64) -> Weight {
        if tile.kind == Kind::Hole {
            return Weight { gain: tile.bytes, cost: 0 };
        }
        let fits = tile.bytes < bytes && self.has_place(tiles, tile.bytes);
        Weight { gain: if fits { tile.bytes } else { 0 }, cost: tile.bytes }
    }

    /// Returns whether a hole exists that a block of `bytes` fills nearly.
    fn has_place(&mut self, tiles: &Tiles, bytes: u64) -> bool {
        let limit = fit_limit(bytes);
        let class = Places::class_of(bytes);
        (class..=Places::class_of(limit)).any(|class| {
            if self.smallest[class] == Places::UNKNOWN {
                let floor = Places::floor_of(class).next_multiple_of(64);
                self.smallest[class] = tiles.holes_of(floor).next().map_or(0, |hole| hole.bytes);
            }
            (bytes..=limit).contains(&self.smallest[class])
        })
    }

    fn class_of(bytes: u64) -> usize {
        let log2 = bytes.ilog2();
        let step = bytes >> (log2 - Places::STEPS_LOG2) & ((1 << Places::STEPS_LOG2) - 1);
        ((u64::from(log2) << Places::STEPS_LOG2) + step) as usize
    }

    fn floor_of(class: usize) -> u64 {
        let log2 = class >> Places::STEPS_LOG2;
        let step = class & ((1 << Places::STEPS_LOG2) - 1);
        (((1 << Places::STEPS_LOG2) + step) as u64) << (log2 - Places::STEPS_LOG2 as usize)
    }
}

/// Returns the largest hole that a block of `bytes` may be moved into: what is left over is too
/// small to matter.
fn fit_limit(bytes: u64) -> u64 {
    bytes + bytes / 16 + 1024
}
