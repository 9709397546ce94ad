//! What is free in a run of upload memory.
//!
//! The lists are in the server's private memory: what a client writes into its memory is never read
//! as a list. Best fit, and memory that was used before comes first, as its pages are mapped and in
//! the cache. Freed neighbours merge.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::LINE_BYTES;

/// The free ranges of a run, as offsets from its start.
#[derive(Debug)]
pub(super) struct RunSpace {
    bytes: u64,
    /// From here on nothing has been handed out yet.
    fresh: u64,
    /// Free ranges below `fresh`: their bytes by where they start.
    holes: BTreeMap<u64, u64>,
    /// The same, as (bytes, start).
    by_size: BTreeSet<(u64, u64)>,
}

impl RunSpace {
    /// Returns a space of `bytes`, all of it free.
    pub fn new(bytes: u64) -> RunSpace {
        RunSpace { bytes, fresh: 0, holes: BTreeMap::new(), by_size: BTreeSet::new() }
    }

    /// Returns the size of a range for `bytes`: whole lines.
    pub fn range_bytes(bytes: u64) -> u64 {
        bytes.next_multiple_of(LINE_BYTES)
    }

    /// Returns how many free ranges are kept account of.
    pub fn hole_count(&self) -> usize {
        self.holes.len()
    }

    /// Returns how large the smallest range is that was used before and has room for `bytes`.
    pub fn warm_fit(&self, bytes: u64) -> Option<u64> {
        self.by_size.range((bytes, 0)..).next().map(|&(hole, _)| hole)
    }

    /// Takes a range of `bytes`, whole lines and above 0; `None` where there is none.
    pub fn allocate(&mut self, bytes: u64) -> Option<u64> {
        assert!(bytes > 0 && bytes.is_multiple_of(LINE_BYTES), "a range of {bytes} bytes");
        let warm = self.by_size.range((bytes, 0)..).next().copied();
        if let Some((hole, start)) = warm {
            self.take_hole(start, hole);
            if hole > bytes {
                self.put_hole(start + bytes, hole - bytes);
            }
            return Some(start);
        }
        let last = self.holes.last_key_value().map(|(&start, &hole)| (start, hole));
        let joined = last.filter(|(start, hole)| start + hole == self.fresh);
        let start = joined.map_or(self.fresh, |(start, _)| start);
        let end = start.checked_add(bytes).filter(|&end| end <= self.bytes)?;
        if let Some((start, hole)) = joined {
            self.take_hole(start, hole);
        }
        self.fresh = end;
        Some(start)
    }

    /// Takes back the range of `bytes` at `start`.
    ///
    /// # Panics
    /// When part of it is free already or was never handed out.
    pub fn free(&mut self, start: u64, bytes: u64) {
        assert!(bytes > 0 && start + bytes <= self.fresh, "a range that was handed out");
        let (mut first, mut total) = (start, bytes);
        let before = self.holes.range(..=start).next_back().map(|(&at, &hole)| (at, hole));
        if let Some((at, hole)) = before {
            assert!(at + hole <= start, "the range at {start:#x} is freed twice");
            if at + hole == start {
                self.take_hole(at, hole);
                (first, total) = (at, total + hole);
            }
        }
        let after = self.holes.range(start..).next().map(|(&at, &hole)| (at, hole));
        if let Some((at, hole)) = after {
            assert!(start + bytes <= at, "the range at {start:#x} is freed twice");
            if start + bytes == at {
                self.take_hole(at, hole);
                total += hole;
            }
        }
        self.put_hole(first, total);
    }

    fn take_hole(&mut self, start: u64, bytes: u64) {
        self.holes.remove(&start);
        self.by_size.remove(&(bytes, start));
    }

    fn put_hole(&mut self, start: u64, bytes: u64) {
        self.holes.insert(start, bytes);
        self.by_size.insert((bytes, start));
    }
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;

    const LINE: u64 = LINE_BYTES;

    /// Holds the space against a map of lines: which are handed out, which were ever.
    struct Model {
        space: RunSpace,
        used: Vec<bool>,
        warm: Vec<bool>,
        ranges: Vec<(u64, u64)>,
    }

    impl Model {
        fn new(lines: u64) -> Model {
            let lines_used = vec![false; lines as usize];
            let warm = lines_used.clone();
            Model { space: RunSpace::new(lines * LINE), used: lines_used, warm, ranges: Vec::new() }
        }

        /// Returns the longest row of free lines, and the longest of those used before.
        fn longest(&self) -> (u64, u64) {
            let (mut all, mut warm) = ((0, 0), (0, 0));
            for (used, was_used) in self.used.iter().zip(&self.warm) {
                all.1 = if *used { 0 } else { all.1 + 1 };
                warm.1 = if *used || !was_used { 0 } else { warm.1 + 1 };
                (all.0, warm.0) = (all.0.max(all.1), warm.0.max(warm.1));
            }
            (all.0, warm.0)
        }

        fn allocate(&mut self, lines: u64) {
            let (all, warm) = self.longest();
            let Some(start) = self.space.allocate(lines * LINE) else {
                assert!(lines > all, "{lines} lines were free: {all}");
                return;
            };
            assert!(start.is_multiple_of(LINE));
            let first = (start / LINE) as usize;
            for line in first..first + lines as usize {
                assert!(
                    !std::mem::replace(&mut self.used[line], true),
                    "line {line} is used twice"
                );
                let was_warm = std::mem::replace(&mut self.warm[line], true);
                assert!(was_warm || warm < lines, "fresh memory although there is warm");
            }
            self.ranges.push((start, lines));
        }

        fn free(&mut self, index: usize) {
            let (start, lines) = self.ranges.swap_remove(index);
            self.space.free(start, lines * LINE);
            let first = (start / LINE) as usize;
            self.used[first..first + lines as usize].fill(false);
        }

        fn check(&self) {
            let holes = &self.space.holes;
            let sizes: BTreeSet<_> = holes.iter().map(|(&start, &bytes)| (bytes, start)).collect();
            assert_eq!(sizes, self.space.by_size);
            let free = holes.values().sum::<u64>() + self.space.bytes - self.space.fresh;
            let used = self.used.iter().filter(|used| **used).count() as u64;
            assert_eq!(free / LINE + used, self.used.len() as u64);
            let mut end = u64::MAX;
            for (&start, &bytes) in holes {
                assert_ne!(start, end, "neighbours merge");
                end = start + bytes;
            }
        }
    }

    #[test]
    fn space_agrees_with_a_map_of_lines() {
        for seed in 0..200 {
            let mut random = Prng::new(seed);
            let mut model = Model::new(96);
            for _ in 0..1000 {
                if model.ranges.is_empty() || random.below(100) < 55 {
                    let scale = random.below(6);
                    model.allocate(1 + random.below(1 << scale));
                } else {
                    model.free(random.below(model.ranges.len() as u64) as usize);
                }
                model.check();
            }
            while !model.ranges.is_empty() {
                model.free(0);
                model.check();
            }
            assert_eq!(model.space.allocate(96 * LINE), Some(0), "seed {seed}: all of it is free");
        }
    }

    #[test]
    fn same_size_again_and_again_stays_on_the_same_memory() {
        let mut space = RunSpace::new(100 * LINE);
        let start = space.allocate(30 * LINE).unwrap();
        for _ in 0..10 {
            space.free(start, 30 * LINE);
            assert_eq!(space.allocate(30 * LINE), Some(start));
        }
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn range_is_freed_once() {
        let mut space = RunSpace::new(10 * LINE);
        space.allocate(4 * LINE).unwrap();
        space.free(LINE, LINE);
        space.free(0, 2 * LINE);
    }
}
