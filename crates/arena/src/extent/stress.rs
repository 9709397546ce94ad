//! A stress test: how full the region gets under churn, and what sliding costs for it.
//!
//! The default is a small region that keeps the proportions of the real one: values uniform up to
//! a 1024th of it. `FOREBAY_EXTENT_CAMPAIGN_MIB=1024` runs the full size; with `--nocapture` the
//! figures are printed. docs/decisions/0001-extents.md has a run of it.

use base::prng::Prng;

use super::tests::{arena_over, base_and_end, number_from};
use super::*;
use crate::layout::SMALL_ENTRY_BYTES_MAX;
use crate::segment_source::HeapSource;

/// The part of the region that blocks must fill on average; headers and rounding take 0.03 % of it
/// at the full size.
const UTILISATION_MIN: f64 = 0.975;
/// Header line and key.
const BLOCK_OVERHEAD_BYTES: u64 = 128;

/// What the writers do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Churn {
    /// New keys only; each needs room, and room comes from evicting at random.
    Insert,
    /// Keys drawn from a set a third larger than what fits: most writes replace a value.
    Overwrite,
}

struct Live {
    offset: u64,
    value_bytes: u64,
    /// Its place in the list of live entries.
    place: usize,
}

/// A region, its entries by descriptor, and the counts of the run.
struct ChurnRun {
    space: ExtentSpace,
    random: Prng,
    entries: Vec<Option<Live>>,
    places: Vec<u64>,
    value_bytes: u64,
    moved_bytes: u64,
    steps: u64,
    evictions: u64,
}

impl ChurnRun {
    fn new(region_bytes: u64, seed: u64) -> ChurnRun {
        let segment_bytes = (region_bytes / 16).min(64 << 20);
        let segment_count = (region_bytes * 2 / segment_bytes) as u32 + 2;
        let arena = arena_over(HeapSource::new(segment_bytes, segment_count));
        let (base, end) = base_and_end(&arena);
        assert!(end - base >= region_bytes);
        let touched = arena.usage().touched_bytes;
        arena.set_limit(touched + region_bytes);
        ChurnRun {
            space: ExtentSpace::new(arena.memory.clone(), base, end),
            random: Prng::new(seed),
            entries: Vec::new(),
            places: Vec::new(),
            value_bytes: 0,
            moved_bytes: 0,
            steps: 0,
            evictions: 0,
        }
    }

    /// Stores a value of `value_bytes` under `key`, making room as `reserve` does, and then drops
    /// the value that it replaces. Returns how many bytes were slid for it.
    fn write(&mut self, key: usize, value_bytes: u64) -> u64 {
        let bytes = value_bytes + BLOCK_OVERHEAD_BYTES;
        let owner = BlockOwner { descriptor: key as u64 * 16, shard: 0, database: 0 };
        let mut budget = SlideBudget::new();
        let moved_before = self.moved_bytes;
        let offset = loop {
            if let Ok(offset) = self.space.allocate(bytes, owner, LimitPolicy::Limited) {
                break offset;
            }
            self.slide(bytes, &mut budget);
            if !self.space.fits(bytes) {
                self.evict(key);
            }
        };
        self.remove(key);
        if self.entries.len() <= key {
            self.entries.resize_with(key + 1, || None);
        }
        self.entries[key] = Some(Live { offset, value_bytes, place: self.places.len() });
        self.places.push(key as u64);
        self.value_bytes += value_bytes;
        self.moved_bytes - moved_before
    }

    fn slide(&mut self, bytes: u64, budget: &mut SlideBudget) {
        while let Some(step) = self.space.plan(bytes, budget) {
            let key = (step.owner.descriptor / 16) as usize;
            let entry = self.entries[key].as_mut().expect("the owner of a block lives");
            assert_eq!(entry.offset, step.offset);
            self.moved_bytes += self.space.block_bytes(step.offset);
            self.steps += 1;
            entry.offset = self.space.slide(&step).expect("nothing has changed since the plan");
        }
    }

    /// Removes a random entry other than `spared`, whose value is being replaced.
    fn evict(&mut self, spared: usize) {
        let place = self.random.below(self.places.len() as u64) as usize;
        let key = self.places[place] as usize;
        if key != spared {
            self.remove(key);
            self.evictions += 1;
        }
    }

    fn remove(&mut self, key: usize) {
        let Some(live) = self.entries.get_mut(key).and_then(Option::take) else { return };
        self.space.free(live.offset);
        self.value_bytes -= live.value_bytes;
        self.places.swap_remove(live.place);
        if let Some(&moved) = self.places.get(live.place) {
            let moved = self.entries[moved as usize].as_mut().expect("a listed entry lives");
            moved.place = live.place;
        }
    }
}

/// The figures of a run after the region has filled.
#[derive(Default)]
struct Figures {
    writes: u64,
    block_bytes: u64,
    value_bytes: u64,
    value_bytes_min: u64,
    moved_bytes_max: u64,
}

impl Figures {
    fn add(&mut self, run: &ChurnRun, moved: u64) {
        let first = self.writes == 0;
        self.writes += 1;
        self.block_bytes += run.space.used_bytes();
        self.value_bytes += run.value_bytes;
        self.moved_bytes_max = self.moved_bytes_max.max(moved);
        let least = if first { u64::MAX } else { self.value_bytes_min };
        self.value_bytes_min = least.min(run.value_bytes);
    }
}

/// Runs `churn` over a region of `region_bytes`, prints the figures, and returns the part of the
/// region that blocks fill on average.
fn run(churn: Churn, region_bytes: u64, writes: u64, seed: u64) -> f64 {
    let mut run = ChurnRun::new(region_bytes, seed);
    let largest = number_from("FOREBAY_EXTENT_CAMPAIGN_VALUE_BYTES", region_bytes / 1024);
    let keys = region_bytes * 4 / 3 / (largest / 2);
    let mut figures = Figures::default();
    // After twice as many writes as there are keys the region is full and its holes have settled.
    let settled = 2 * keys;
    for write in 0..settled + writes {
        let key = match churn {
            Churn::Insert => write % (2 * keys),
            Churn::Overwrite => run.random.below(keys),
        };
        // Smaller values live in slab pages.
        let smallest = SMALL_ENTRY_BYTES_MAX.min(largest / 16);
        let value_bytes = smallest + run.random.below(largest - smallest + 1);
        if write == settled {
            (run.moved_bytes, run.steps, run.evictions) = (0, 0, 0);
        }
        let moved = run.write(key as usize, value_bytes);
        if write >= settled {
            figures.add(&run, moved);
        }
    }
    let per = |count: u64| count as f64 / figures.writes as f64;
    let percent = |bytes: f64| 100.0 * bytes / region_bytes as f64;
    println!(
        "{churn:?} {} MiB, seed {seed}: values fill {:.2} % (least {:.2} %), blocks {:.2} %; moved \
         {:.0} B a write (most {}), {:.3} steps and {:.3} evictions a write, {} blocks, {} holes",
        region_bytes >> 20,
        percent(per(figures.value_bytes)),
        percent(figures.value_bytes_min as f64),
        percent(per(figures.block_bytes)),
        per(run.moved_bytes),
        figures.moved_bytes_max,
        per(run.steps),
        per(run.evictions),
        run.space.figures().block_count,
        run.space.figures().hole_count,
    );
    assert!(run.space.touched_bytes() <= region_bytes);
    per(figures.block_bytes) / region_bytes as f64
}

#[test]
fn churn_leaves_the_region_full() {
    let mib = number_from("FOREBAY_EXTENT_CAMPAIGN_MIB", 64);
    let writes = number_from("FOREBAY_EXTENT_CAMPAIGN_WRITES", 3000);
    let seed = number_from("FOREBAY_EXTENT_CAMPAIGN_SEED", 1);
    for churn in [Churn::Insert, Churn::Overwrite] {
        let utilisation = run(churn, mib << 20, writes, seed);
        assert!(
            utilisation >= UTILISATION_MIN,
            "{churn:?} fills {utilisation:.4} of {mib} MiB, seed {seed}"
        );
    }
}
