//! The extent allocator against a model: sound tiles and tags, exact accounting, content intact.
//!
//! `FOREBAY_EXTENT_HISTORIES` sets the number of random histories of each test,
//! `FOREBAY_EXTENT_OPERATIONS` their length; `FOREBAY_EXTENT_SEED` repeats one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;

use base::prng::Prng;

use super::*;
use crate::arena::ArenaConfig;
use crate::layout::root;
use crate::segment_source::{HeapSource, SegmentError, SegmentSource};

use bins::bin_of;

/// Returns an arena over `source`, about half of it for extents.
pub(super) fn arena_over(source: impl SegmentSource + 'static) -> Arc<Arena> {
    let config =
        ArenaConfig { shard_count: 1, database_count: 1, hash_keys: base::HashKeys::fixed(7) };
    Arena::new(Box::new(source), config).expect("the range is large enough")
}

/// Returns where the extent region of `arena` lies. The arena's own allocator stays unused.
pub(super) fn base_and_end(arena: &Arena) -> (u64, u64) {
    let word = |at| arena.memory.word(at).load(Ordering::Relaxed);
    (word(root::EXTENT_BASE), word(root::SPAN_BYTES))
}

pub(super) fn number_from(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// How far apart the words are that are filled and checked.
const STRIDE: usize = if cfg!(miri) { 256 } else { 8 };

fn owner(number: u64) -> BlockOwner {
    BlockOwner { descriptor: number * 16, shard: number as u16 % 64, database: number as u8 % 16 }
}

/// What a block must be.
#[derive(Clone, Copy)]
struct Expected {
    bytes: u64,
    owner: BlockOwner,
    kind: Kind,
    seed: u64,
}

/// A region, what it must hold, and the random choices.
struct Pair {
    arena: Arc<Arena>,
    space: ExtentSpace,
    model: BTreeMap<u64, Expected>,
    random: Prng,
    /// Steps that were planned and not taken; the world has moved on since.
    stale: Vec<SlideStep>,
    owner_count: u64,
    touched_elsewhere: u64,
    bytes_max: u64,
    slides: u64,
    returned: u64,
}

impl Pair {
    fn new(seed: u64, segment_bytes: u64, segment_count: u32) -> Pair {
        let arena = arena_over(HeapSource::new(segment_bytes, segment_count));
        let (base, end) = base_and_end(&arena);
        Pair {
            space: ExtentSpace::new(arena.memory.clone(), base, end),
            touched_elsewhere: arena.usage().touched_bytes,
            arena,
            model: BTreeMap::new(),
            random: Prng::new(seed),
            stale: Vec::new(),
            owner_count: 0,
            bytes_max: (end - base) / 16,
            slides: 0,
            returned: 0,
        }
    }

    fn run(&mut self, operations: u64) {
        for operation in 0..operations {
            self.step();
            self.check_figures();
            if operation % 64 == 63 {
                self.check_tiles();
                self.check_holes();
            }
        }
        self.check_tiles();
        self.check_holes();
        for offset in self.model.keys().copied().collect::<Vec<_>>() {
            self.free(offset);
        }
        self.space.retire_segments(u64::MAX);
        self.check_tiles();
        assert_eq!((self.space.touched_bytes(), self.space.block_count), (0, 0));
    }

    fn step(&mut self) {
        match self.random.below(64) {
            0..26 => self.allocate(),
            26..46 => self.with_any(Pair::free),
            46..50 => self.with_any(Pair::extend),
            50..53 => self.with_any(Pair::shrink),
            53 => self.with_any(Pair::link),
            54..56 => self.with_any(Pair::retire),
            56..59 => self.make_room(),
            59..61 => self.clear_part(),
            61 => self.slide_stale(),
            62 => self.returned += self.space.retire_segments(self.bytes_max),
            _ => self.set_limit(),
        }
    }

    fn bytes(&mut self) -> u64 {
        let max = match self.random.below(16) {
            0 => self.bytes_max * 4,
            1..5 => self.bytes_max,
            _ => self.bytes_max / 8,
        };
        1 + self.random.below(max)
    }

    fn room(&mut self) -> LimitPolicy {
        if self.random.one_in(4) { LimitPolicy::Overshoot } else { LimitPolicy::Limited }
    }

    fn set_limit(&mut self) {
        let region = self.bytes_max * 16;
        let bytes = self.random.below(2 * region);
        self.arena.set_limit(if bytes > region { 0 } else { self.touched_elsewhere + bytes });
    }

    fn with_any(&mut self, act: fn(&mut Pair, u64)) {
        if self.model.is_empty() {
            return;
        }
        let index = self.random.below(self.model.len() as u64) as usize;
        let offset = *self.model.keys().nth(index).expect("below the length");
        act(self, offset);
    }

    fn allocate(&mut self) {
        let (bytes, room) = (self.bytes(), self.room());
        self.owner_count += 1;
        let (owner, touched) = (owner(self.owner_count), self.space.touched_bytes());
        let had_hole = self.space.fits(bytes);
        let kind = if self.random.one_in(4) { Kind::Reserved } else { Kind::Block };
        let allocated = match kind {
            Kind::Reserved => self.space.reserve(bytes, room),
            _ => self.space.allocate(bytes, owner, room),
        };
        match allocated {
            Ok(offset) => {
                assert_eq!(offset % LINE_BYTES, 0);
                let seed = self.random.next();
                let bytes = self.space.block_bytes(offset);
                self.model.insert(offset, Expected { bytes, owner, kind, seed });
                self.fill(offset, 16..bytes, seed);
            }
            Err(need) => {
                assert!(!had_hole, "a hole of {bytes} bytes exists");
                assert_eq!((need.bytes, touched), (block_size(bytes), self.space.touched_bytes()));
            }
        }
    }

    fn free(&mut self, offset: u64) {
        self.check_content(offset);
        self.space.free(offset);
        self.model.remove(&offset);
    }

    fn extend(&mut self, offset: u64) {
        let (bytes, room) = (self.bytes(), self.room());
        let old = self.model[&offset];
        if self.space.extend(offset, bytes, room) {
            let bytes = block_size(bytes).max(old.bytes);
            self.model.insert(offset, Expected { bytes, ..old });
            self.fill(offset, 16..bytes, old.seed);
        }
        self.check_content(offset);
    }

    fn shrink(&mut self, offset: u64) {
        let bytes = self.bytes();
        let old = self.model[&offset];
        self.space.shrink(offset, bytes);
        self.model.insert(offset, Expected { bytes: block_size(bytes).min(old.bytes), ..old });
        self.check_content(offset);
    }

    fn retire(&mut self, offset: u64) {
        let expected = self.model.get_mut(&offset).expect("a block of the model");
        if expected.kind != Kind::Retired {
            expected.kind = Kind::Retired;
            self.space.retire(offset);
        }
    }

    fn link(&mut self, offset: u64) {
        let expected = self.model.get_mut(&offset).expect("a block of the model");
        if expected.kind == Kind::Reserved {
            expected.kind = Kind::Block;
            self.space.link(offset, expected.owner);
        }
    }

    /// Does what `reserve` does, with some steps pinned and some overtaken by other changes.
    fn make_room(&mut self) {
        let largest = self.space.figures().largest_hole_bytes;
        let bytes = largest + 1 + self.random.below(self.bytes_max / 8);
        let mut budget = SlideBudget::new();
        let moved_max = block_size(bytes).clamp(64 << 10, 4 << 20);
        let mut moved = 0;
        for _ in 0..300 {
            let Some(step) = self.space.plan(bytes, &mut budget) else { return };
            moved += self.space.block_bytes(step.offset);
            assert!(moved <= moved_max, "a round moves {moved} bytes for {bytes}");
            match self.random.below(8) {
                0 => budget.avoid(&step),
                1 => {
                    self.stale.push(step);
                    return;
                }
                2 => {
                    self.with_any(Pair::free);
                    self.slide(&step);
                }
                _ => assert!(self.slide(&step), "nothing has changed since the plan"),
            }
        }
        panic!("a round does not end");
    }

    /// Clears a part as far as it can be, with steps that are overtaken by other changes.
    fn clear_part(&mut self) {
        let bytes = 1 + self.random.below(self.bytes_max / 4);
        let Some(part) = self.space.find_part_to_clear(bytes, &[]) else { return };
        assert!(part.end - part.start >= block_size(bytes));
        let mut moved = 0;
        for _ in 0..300 {
            match self.space.plan_clearing(&part) {
                Obstacle::None { .. } => {
                    let holes = self.space.figures().largest_hole_bytes;
                    assert!(holes >= bytes, "{part:x?} is free, and no hole has {bytes} bytes");
                    return;
                }
                Obstacle::Block(TopStep::Move(step)) => {
                    moved += self.space.block_bytes(step.offset);
                    assert!(moved <= part.end - part.start, "no more is moved than lies there");
                    if self.random.one_in(8) {
                        self.stale.push(step);
                        return;
                    }
                    assert!(self.slide(&step), "nothing has changed since the plan");
                }
                Obstacle::Block(_) => return,
            }
        }
        panic!("clearing does not end");
    }

    fn slide_stale(&mut self) {
        if let Some(step) = self.stale.pop() {
            self.slide(&step);
        }
    }

    fn slide(&mut self, step: &SlideStep) -> bool {
        let before = self.model.get(&step.offset).copied();
        let Some(target) = self.space.slide(step) else { return false };
        let expected = before.expect("what was moved was there");
        assert_eq!((expected.owner, expected.kind), (step.owner, Kind::Block));
        self.model.remove(&step.offset);
        assert!(self.model.insert(target, expected).is_none(), "two blocks at {target:#x}");
        self.check_content(target);
        self.slides += 1;
        true
    }

    /// Writes the bytes `range` of the block as an entry would: words from 2 on.
    fn fill(&self, offset: u64, range: Range<u64>, seed: u64) {
        for at in range.step_by(STRIDE) {
            self.arena.memory.word(offset + at).store(pattern(seed, at), Ordering::Relaxed);
        }
    }

    fn check_content(&self, offset: u64) {
        let Expected { bytes, seed, .. } = self.model[&offset];
        for at in (16..bytes).step_by(STRIDE) {
            let word = self.arena.memory.word(offset + at).load(Ordering::Relaxed);
            assert_eq!(word, pattern(seed, at), "byte {at} of the block at {offset:#x}");
        }
    }

    fn check_figures(&self) {
        let sum = |kinds: &[Kind]| -> u64 {
            let blocks = self.model.values().filter(|block| kinds.contains(&block.kind));
            blocks.map(|block| block.bytes).sum()
        };
        let space = &self.space;
        assert_eq!(space.used_bytes(), sum(&[Kind::Block, Kind::Retired, Kind::Reserved]));
        assert_eq!(space.retired_bytes, sum(&[Kind::Retired]));
        assert_eq!(space.reserved_bytes, sum(&[Kind::Reserved]));
        assert_eq!(space.block_count, self.model.len() as u64);
        assert_eq!(space.touched_bytes(), space.used_bytes() + space.free_bytes());
        let touched = self.arena.usage().touched_bytes - self.touched_elsewhere;
        assert_eq!(touched, space.touched_bytes(), "what the budget counts");
    }

    /// Walks the region up and down: the tiles lie end to end, free ones are merged, and the
    /// others are the model's blocks with its content.
    fn check_tiles(&self) {
        let mut reached = self.space.base;
        let mut blocks = 0;
        let mut order = Vec::new();
        for (id, tile) in self.space.tiles.from(Tiles::FIRST) {
            assert_eq!(tile.offset, reached, "tiles lie end to end");
            let before = order.last().map(|&last| self.space.tiles.get(last));
            if before.is_some_and(|before| before.kind == tile.kind && tile.is_free()) {
                panic!("{before:x?} and {tile:x?} are not merged");
            }
            if tile.kind == Kind::Gap {
                assert_eq!((tile.offset % TOUCH_BYTES, tile.bytes % TOUCH_BYTES), (0, 0));
            } else {
                self.check_committed(tile);
            }
            if !tile.is_free() {
                blocks += 1;
                self.check_block(id, tile);
            }
            reached = tile.end();
            order.push(id);
        }
        assert_eq!((reached, blocks), (self.space.end, self.model.len()));
        assert_eq!(order.len(), self.space.tiles.len());
        let mut id = Some(self.space.tiles.last());
        while let Some(last) = id {
            assert_eq!(order.pop(), Some(last), "the way down is the way up");
            id = self.space.tiles.previous(last);
        }
        assert!(order.is_empty());
    }

    fn check_block(&self, id: TileId, tile: Tile) {
        let word = self.arena.memory.word(tile.offset + block::TAG).load(Ordering::Relaxed);
        assert_eq!(Tag::from_word(word), Tag { bytes: tile.bytes, tile: id });
        let expected = self.model[&tile.offset];
        assert_eq!(tile.bytes, expected.bytes);
        assert_eq!(tile.kind, expected.kind);
        if tile.kind == Kind::Block {
            assert_eq!(self.space.owner(tile.offset), expected.owner);
        }
        self.check_content(tile.offset);
    }

    fn check_committed(&self, tile: Tile) {
        let segment = |offset: u64| (offset - self.space.base) / self.arena.memory.segment_bytes();
        for index in segment(tile.offset)..=segment(tile.end() - 1) {
            assert!(self.space.committed[index as usize], "{tile:x?} is in no segment");
        }
    }

    /// The holes found by size are those found by walking, each in its bin, and the best fits.
    fn check_holes(&mut self) {
        let tiles = &self.space.tiles;
        let of = |kind| tiles.from(Tiles::FIRST).filter(move |(_, tile)| tile.kind == kind);
        let mut walked: Vec<_> =
            of(Kind::Hole).map(|(_, hole)| (hole.bytes, hole.offset)).collect();
        let listed: Vec<_> = tiles.holes_down_to(64).map(|(_, hole)| hole).collect();
        assert!(listed.is_sorted_by_key(|hole| std::cmp::Reverse(bin_of(hole.bytes))));
        let mut listed: Vec<_> = listed.iter().map(|hole| (hole.bytes, hole.offset)).collect();
        walked.sort_unstable();
        listed.sort_unstable();
        assert_eq!(walked, listed);
        assert_eq!(tiles.hole_count(), walked.len());
        assert_eq!(self.space.figures().largest_hole_bytes, walked.last().map_or(0, |hole| hole.0));
        let mut gaps: Vec<_> = tiles.gaps().to_vec();
        gaps.sort_by_key(|&gap| tiles.get(gap).offset);
        assert!(gaps.into_iter().eq(of(Kind::Gap).map(|(id, _)| id)));
        let wanted = block_size(1 + self.random.below(self.bytes_max));
        let best = walked.iter().find(|hole| hole.0 >= wanted).map(|hole| hole.0);
        let found = tiles.best_fit(wanted).map(|id| tiles.get(id).bytes);
        let crowded =
            |bytes: u64| walked.iter().filter(|hole| bin_of(hole.0) == bin_of(bytes)).count() > 32;
        if !crowded(wanted) && !best.is_some_and(crowded) {
            assert_eq!(found, best, "the best fit for {wanted} bytes");
        }
    }
}

fn pattern(seed: u64, at: u64) -> u64 {
    seed ^ at.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Prints the seed when the test that holds it panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("repeat with FOREBAY_EXTENT_SEED={}", self.0);
        }
    }
}

fn check_seeds(seeds: Range<u64>, operations: u64, segment_bytes: u64, segment_count: u32) {
    let operations = number_from("FOREBAY_EXTENT_OPERATIONS", operations);
    let first = number_from("FOREBAY_EXTENT_SEED", 0);
    let count = number_from("FOREBAY_EXTENT_HISTORIES", seeds.end - seeds.start);
    let seeds = if first == 0 { seeds.start..seeds.start + count } else { first..first + 1 };
    let (mut histories, mut slides, mut returned) = (0, 0, 0);
    // Of short histories only some meet both a slide and a segment to give back.
    let further = if first == 0 { 16 } else { 0 };
    for seed in seeds.start..seeds.end + further {
        if seed >= seeds.end && slides > 0 && returned > 0 {
            break;
        }
        let _seed = Seed(seed);
        let mut pair = Pair::new(seed, segment_bytes, segment_count);
        pair.run(operations);
        histories += 1;
        slides += pair.slides;
        returned += pair.returned;
    }
    println!("{histories} histories of {operations} operations: {slides} slides, {returned} bytes");
    assert!(slides > 0 && returned > 0, "{slides} slides, {returned} bytes returned");
}

#[test]
fn any_sequence_keeps_the_tiles_sound_and_the_content() {
    check_seeds(1..25, 3000, 1 << 16, 33);
}

#[test]
fn many_blocks_keep_the_tiles_sound_and_the_content() {
    check_seeds(1..3, 6000, 1 << 18, 129);
}

#[test]
fn miri_any_sequence_keeps_the_tiles_sound_and_the_content() {
    let (seeds, operations) = if cfg!(miri) { (2..3, 200) } else { (1..3, 3000) };
    check_seeds(seeds, operations, 1 << 14, 17);
}

/// Heap segments that the system refuses on demand.
struct Refusing {
    heap: HeapSource,
    refuses: Arc<AtomicBool>,
}

// SAFETY: all memory is that of the heap source.
unsafe impl SegmentSource for Refusing {
    fn base(&self) -> NonNull<u8> {
        self.heap.base()
    }

    fn span_bytes(&self) -> u64 {
        self.heap.span_bytes()
    }

    fn segment_bytes(&self) -> u64 {
        self.heap.segment_bytes()
    }

    fn commit(&self, index: u32) -> Result<(), SegmentError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(SegmentError("refused".into()));
        }
        self.heap.commit(index)
    }

    fn retire(&self, index: u32) {
        self.heap.retire(index);
    }
}

#[test]
fn a_refused_segment_changes_nothing() {
    let refuses = Arc::new(AtomicBool::new(false));
    let heap = HeapSource::new(1 << 14, 17);
    let arena = arena_over(Refusing { heap, refuses: refuses.clone() });
    let (base, end) = base_and_end(&arena);
    let mut space = ExtentSpace::new(arena.memory.clone(), base, end);
    let block = space.allocate(10_000, owner(1), LimitPolicy::Limited).expect("there is room");
    let before = (arena.usage().touched_bytes, space.touched_bytes(), space.free_bytes());
    refuses.store(true, Ordering::Relaxed);
    let refused = space.allocate(20_000, owner(2), LimitPolicy::Overshoot);
    assert_eq!(refused, Err(NeedRoom { bytes: 20_032, region: Region::Extent }));
    assert!(!space.extend(block, 20_000, LimitPolicy::Overshoot));
    assert_eq!(before, (arena.usage().touched_bytes, space.touched_bytes(), space.free_bytes()));
    refuses.store(false, Ordering::Relaxed);
    assert!(space.extend(block, 20_000, LimitPolicy::Limited));
    assert_eq!((space.block_bytes(block), space.touched_bytes()), (20_032, 20_480));
}

fn small_space() -> (Arc<Arena>, ExtentSpace) {
    let arena = arena_over(HeapSource::new(1 << 14, 17));
    let (base, end) = base_and_end(&arena);
    let space = ExtentSpace::new(arena.memory.clone(), base, end);
    (arena, space)
}

#[test]
fn a_block_spans_segments_and_memory_comes_back_warm() {
    let (arena, mut space) = small_space();
    let block = space.allocate(50_000, owner(1), LimitPolicy::Limited).expect("there is room");
    assert_eq!(space.touched_bytes(), 53_248, "whole pages");
    space.free(block);
    arena.set_limit(arena.usage().touched_bytes);
    let again = space.allocate(53_248, owner(2), LimitPolicy::Limited);
    assert_eq!(again, Ok(block), "touched memory counts once");
    assert_eq!(
        space.allocate(64, owner(3), LimitPolicy::Limited),
        Err(NeedRoom { bytes: 64, region: Region::Extent })
    );
    assert!(space.allocate(64, owner(3), LimitPolicy::Overshoot).is_ok());
    space.free(block);
    assert_eq!(space.retire_segments(u64::MAX), 3 << 14);
    assert_eq!((space.touched_bytes(), space.used_bytes()), (8192, 64));
}

#[test]
fn last_block_goes_to_a_hole_below_it_or_is_stuck() {
    let (_arena, mut space) = small_space();
    assert_eq!(space.plan_top(u64::MAX), TopStep::Nothing);
    let blocks: Vec<u64> = (0..3)
        .map(|number| {
            space.allocate(8192, owner(number), LimitPolicy::Limited).expect("there is room")
        })
        .collect();
    let stuck = |number: u64| TopStep::Stuck {
        offset: blocks[number as usize],
        owner: owner(number),
        bytes: 8192,
        is_movable: true,
    };
    assert_eq!(space.plan_top(u64::MAX), stuck(2), "there is no hole at all");
    assert_eq!(space.plan_top(blocks[2]), stuck(1));
    space.free(blocks[0]);
    let TopStep::Move(step) = space.plan_top(u64::MAX) else { panic!("there is a hole") };
    assert_eq!(space.slide(&step), Some(blocks[0]));
    assert_eq!(space.plan_top(u64::MAX), stuck(1), "the hole is above it now");
}

#[test]
fn what_lies_behind_a_block_makes_way_for_it() {
    let (arena, mut space) = small_space();
    let blocks: Vec<u64> = (0..3)
        .map(|number| {
            space.allocate(8192, owner(number), LimitPolicy::Limited).expect("there is room")
        })
        .collect();
    let free = |untouched_bytes| Obstacle::None { untouched_bytes };
    assert_eq!(space.plan_extension(blocks[2], 16_384), free(8192));
    arena.set_limit(arena.usage().touched_bytes);
    let (offset, owner) = (blocks[1], owner(1));
    let stuck = TopStep::Stuck { offset, owner, bytes: 8192, is_movable: true };
    let blocked = Obstacle::Block(stuck);
    assert_eq!(space.plan_extension(blocks[0], 12_288), blocked, "no more may be touched");
    arena.set_limit(0);
    let Obstacle::Block(TopStep::Move(step)) = space.plan_extension(blocks[0], 12_288) else {
        panic!("there is room at the end")
    };
    let moved = space.slide(&step).expect("nothing has changed");
    assert!(moved > blocks[2] && space.owner(moved) == owner);
    assert_eq!(space.plan_extension(blocks[0], 12_288), free(0));
    assert!(space.extend(blocks[0], 12_288, LimitPolicy::Limited));
    space.retire(blocks[2]);
    let fixed = Obstacle::Block(TopStep::Nothing);
    assert_eq!(space.plan_extension(blocks[0], 30_000), fixed, "a pin may hold what is behind");
    // Blocks that moved meanwhile, and what pin tables of clients may say.
    for offset in [0, 1, blocks[0] + 64, blocks[1], moved + 1, u64::MAX - 63] {
        assert_eq!(space.plan_extension(offset, 1 << 20), fixed);
        assert_eq!(space.bytes_at([offset]), 0);
    }
    assert_eq!(space.bytes_at([blocks[2], 64, blocks[0]]), 8192 + 12_288);
}

#[test]
fn no_memory_is_read_where_a_client_says_that_a_block_is_and_none_can_be() {
    let (_arena, mut space) = small_space();
    let blocks = [1, 2].map(|number| {
        space.allocate(4096, owner(number), LimitPolicy::Limited).expect("there is room")
    });
    // Behind the last block its segment goes on, without memory.
    let behind = (blocks[1] + 4096..blocks[1] + 8192).step_by(64);
    let reads = step_counters::steps_of(CountedStep::Tag, || {
        assert_eq!(space.bytes_at(blocks.into_iter().chain(behind.clone())), 8192);
        behind.for_each(|offset| assert_eq!(space.block_at(offset), None));
    });
    assert_eq!(reads, 2);
}

#[test]
fn a_block_grows_over_whatever_free_memory_is_behind_it() {
    const SEGMENT: u64 = 1 << 14;
    let (arena, mut space) = small_space();
    let sizes = [SEGMENT / 2, SEGMENT / 2, SEGMENT, SEGMENT, SEGMENT, SEGMENT];
    let blocks = sizes.map(|bytes| {
        space.allocate(bytes, owner(bytes), LimitPolicy::Limited).expect("there is room")
    });
    // Behind the first block a hole, a segment without memory, a hole, and no memory from there on.
    for index in [3, 4, 5, 2, 1] {
        space.free(blocks[index]);
        if [3, 5].contains(&index) {
            assert_eq!(space.retire_segments(1), SEGMENT);
        }
    }
    assert_eq!(space.touched_bytes(), 3 * SEGMENT);
    let wanted = 4 * SEGMENT + 5000;
    let free = Obstacle::None { untouched_bytes: SEGMENT + 8192 };
    assert_eq!(space.plan_extension(blocks[0], wanted), free);
    arena.set_limit(arena.usage().touched_bytes + SEGMENT);
    assert!(!space.extend(blocks[0], wanted, LimitPolicy::Limited), "it may touch one of the two");
    assert_eq!((space.touched_bytes(), space.block_bytes(blocks[0])), (3 * SEGMENT, SEGMENT / 2));
    arena.set_limit(0);
    assert!(space.extend(blocks[0], wanted, LimitPolicy::Limited));
    assert_eq!(space.block_bytes(blocks[0]), wanted.next_multiple_of(64));
    assert_eq!(space.touched_bytes(), 4 * SEGMENT + 8192);
    assert!(!space.extend(blocks[0], 1 << 30, LimitPolicy::Limited), "the region is smaller");
}

#[test]
fn scattered_holes_become_one_by_moving_no_more_than_is_wanted() {
    let (arena, mut space) = small_space();
    let mut allocate =
        |number| space.allocate(4096, owner(number), LimitPolicy::Limited).expect("there is room");
    let blocks: Vec<u64> = (0..24).map(&mut allocate).collect();
    arena.set_limit(arena.usage().touched_bytes);
    // Every fourth one: no two neighbours.
    blocks.iter().step_by(4).for_each(|&block| space.free(block));
    let wanted = 4 * 4096;
    assert!(!space.fits(wanted));
    let part = space.find_part_to_clear(wanted, &[]).expect("nothing here is fixed");
    let mut moved = 0;
    while let Obstacle::Block(step) = space.plan_clearing(&part) {
        let TopStep::Move(step) = step else { panic!("a hole elsewhere holds each block") };
        moved += space.block_bytes(step.offset);
        space.slide(&step).expect("nothing has changed");
    }
    assert_eq!(moved, 3 * 4096, "one of the four places was free");
    assert!(space.fits(wanted));
    // What is fixed is no part of any.
    let left = blocks.into_iter().filter(|block| !part.contains(block));
    for block in left.collect::<Vec<_>>() {
        if space.bytes_at([block]) > 0 {
            space.retire(block);
        }
    }
    assert_eq!(space.find_part_to_clear(2 * wanted, &[]), None);
}

#[test]
fn parts_to_clear_leave_out_what_is_kept() {
    let (_arena, mut space) = small_space();
    let mut allocate =
        |bytes| space.allocate(bytes, owner(bytes), LimitPolicy::Limited).expect("it fits");
    // The part with the fewest bytes in blocks is that around the one short block.
    let blocks = [8192, 64, 8192, 4096, 8192, 4096].map(&mut allocate);
    [blocks[0], blocks[2], blocks[4]].iter().for_each(|&block| space.free(block));
    let wanted = 3 * 4096;
    let part = |kept: &[u64]| space.find_part_to_clear(wanted, kept);
    assert!(part(&[]).is_some_and(|part| part.contains(&blocks[1])));
    let other = part(&blocks[1..2]).expect("there is the next block");
    assert!(other.contains(&blocks[3]) && !other.contains(&blocks[1]), "{other:x?}");
    assert_eq!(part(&[blocks[1], blocks[3], blocks[5]]), None);
}

#[test]
fn pinned_and_large_blocks_stay_where_they_are() {
    let (_arena, mut space) = small_space();
    let blocks: Vec<u64> = (0..9)
        .map(|number| {
            space.allocate(4096, owner(number), LimitPolicy::Limited).expect("there is room")
        })
        .collect();
    for index in [0, 2, 4, 6, 8] {
        space.free(blocks[index]);
    }
    space.retire(blocks[1]);
    space.retire(blocks[5]);
    let mut budget = SlideBudget::new();
    let step = space.plan(8192, &mut budget).expect("a block between two holes");
    assert!([blocks[3], blocks[7]].contains(&step.offset));
    budget.avoid(&step);
    let other = space.plan(8192, &mut budget).expect("the other block between two holes");
    assert_eq!(step.offset + other.offset, blocks[3] + blocks[7]);
    space.set_owner(other.offset, owner(99));
    assert_eq!(space.slide(&other), None, "it is another owner's block");
    budget.avoid(&other);
    assert_eq!(space.plan(8192, &mut budget), None, "all are retired or pinned");
    let target = space.slide(&step).expect("nothing has changed");
    assert_eq!(space.slide(&step), None, "it is not there any more");
    assert_eq!((space.block_bytes(target), space.owner(target)), (4096, step.owner));
}

#[test]
#[should_panic(expected = "no block at")]
fn a_block_is_freed_once() {
    let (_arena, mut space) = small_space();
    let blocks = [1, 2].map(|number| space.allocate(4096, owner(number), LimitPolicy::Limited));
    let first = blocks[0].expect("there is room");
    space.free(first);
    space.free(first);
}

#[test]
#[should_panic(expected = "no block at")]
fn a_value_past_its_end_is_noticed() {
    let (arena, mut space) = small_space();
    let blocks = [1, 2].map(|number| space.allocate(4096, owner(number), LimitPolicy::Limited));
    let [first, second] = blocks.map(|block| block.expect("there is room"));
    arena.memory.word(first + 4096).store(u64::MAX / 3, Ordering::Relaxed);
    space.free(second);
}
