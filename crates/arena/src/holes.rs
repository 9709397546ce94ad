//! Holes: where a mixed page is free between its items, as far as its header has room to tell.
//!
//! They are recorded in the page's header, so that a search reads nothing else of a page. Holes are
//! apart from each other and from the end of the items: one that comes to touch another becomes one
//! with it. Where there are more than a header has room for the smallest are not recorded; they
//! are free all the same, and found once the page is compacted.
//!
//! ```text
//! words 3..8 of the page's header, two holes in each, from the lowest on; 0: no more
//!  0 16 start | 16 16 length    in units of 8 bytes; the start counts from the first item's place
//! ```

use std::sync::atomic::Ordering;

use crate::layout::LINE_BYTES;
use crate::mapped_range::MappedRange;

const HOLES_AT: u64 = 24;
const HOLE_WORDS: usize = ((LINE_BYTES - HOLES_AT) / 8) as usize;
/// How many holes of a page are recorded.
pub(crate) const HOLES_MAX: usize = 2 * HOLE_WORDS;

/// Free memory, in units, counted from the place of the page's first item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hole {
    pub start: u16,
    pub units: u16,
}

impl Hole {
    pub fn end(self) -> u16 {
        self.start + self.units
    }
}

/// The holes of a page, in no order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holes {
    holes: [Hole; HOLES_MAX],
    count: usize,
}

impl Holes {
    /// Returns no holes.
    pub fn none() -> Holes {
        Holes { holes: [Hole::default(); HOLES_MAX], count: 0 }
    }

    /// Returns those of `page`.
    pub fn load(memory: &MappedRange, page: u64) -> Holes {
        let mut holes = Holes::none();
        for index in 0..HOLE_WORDS {
            let word = memory.word(page + HOLES_AT + index as u64 * 8).load(Ordering::Relaxed);
            if word == 0 {
                break;
            }
            let hole = |half: u32| Hole { start: half as u16, units: (half >> 16) as u16 };
            let (first, second) = (hole(word as u32), hole((word >> 32) as u32));
            holes.holes[2 * index] = first;
            holes.holes[2 * index + 1] = second;
            holes.count += 1 + usize::from(second.units != 0);
        }
        holes
    }

    /// Makes them those of `page`.
    pub fn store(&self, memory: &MappedRange, page: u64) {
        let half = |hole: Hole| u64::from(hole.start) | u64::from(hole.units) << 16;
        for index in 0..HOLE_WORDS {
            let word = half(self.holes[2 * index]) | half(self.holes[2 * index + 1]) << 32;
            memory.word(page + HOLES_AT + index as u64 * 8).store(word, Ordering::Relaxed);
        }
    }

    pub fn as_slice(&self) -> &[Hole] {
        &self.holes[..self.count]
    }

    /// Returns the position of the smallest that has `units`.
    pub fn tightest(&self, units: u16) -> Option<usize> {
        let fits = (0..self.count).filter(|index| self.holes[*index].units >= units);
        fits.min_by_key(|index| self.holes[*index].units)
    }

    /// Takes `units` from the start of the hole at `index`; returns where they begin, and what is
    /// left of the hole.
    pub fn take(&mut self, index: usize, units: u16) -> (u16, Option<Hole>) {
        let hole = self.holes[index];
        let rest = Hole { start: hole.start + units, units: hole.units - units };
        if rest.units == 0 {
            self.remove(index);
            return (hole.start, None);
        }
        self.holes[index] = rest;
        (hole.start, Some(rest))
    }

    /// Takes out the hole that ends at `end`.
    pub fn take_before(&mut self, end: u16) -> Option<Hole> {
        let index = self.as_slice().iter().position(|hole| hole.end() == end)?;
        Some(self.remove(index))
    }

    /// Takes out those from `start` to `end`.
    pub fn take_between(&mut self, start: u16, end: u16) {
        let mut index = 0;
        while index < self.count {
            if (start..end).contains(&self.holes[index].start) {
                self.remove(index);
            } else {
                index += 1;
            }
        }
    }

    /// Adds `hole`, one with those that it touches, and returns what it has become. It is not
    /// recorded where there are many, all larger.
    pub fn add(&mut self, hole: Hole) -> Hole {
        let mut whole = hole;
        if let Some(before) = self.take_before(hole.start) {
            whole = Hole { start: before.start, units: before.units + whole.units };
        }
        let behind = self.as_slice().iter().position(|other| other.start == hole.end());
        if let Some(index) = behind {
            whole.units += self.remove(index).units;
        }
        if self.count < HOLES_MAX {
            self.holes[self.count] = whole;
            self.count += 1;
        } else if let Some(least) = self.holes.iter_mut().min_by_key(|other| other.units)
            && least.units < whole.units
        {
            *least = whole;
        }
        whole
    }

    fn remove(&mut self, index: usize) -> Hole {
        let hole = self.holes[index];
        self.count -= 1;
        self.holes[index] = self.holes[self.count];
        self.holes[self.count] = Hole::default();
        hole
    }
}

/// Returns the run of units, from the start of a hole to the end of another or to `page_end`, whose
/// holes have `units` in all and in which the fewest others are; `None` where there is none. Behind
/// `used` all is free.
pub(crate) fn cheapest_run(holes: &Holes, used: u16, page_end: u16, units: u16) -> Option<Hole> {
    let mut sorted = *holes;
    let count = sorted.count;
    sorted.holes[..count].sort_unstable_by_key(|hole| hole.start);
    let behind = Hole { start: used, units: page_end - used };
    let all = || sorted.as_slice().iter().copied().chain([behind]);
    let (mut first, mut room, mut cheapest) = (all(), 0, None::<(u16, Hole)>);
    for last in all() {
        room += last.units;
        while room >= units {
            let Some(begin) = first.next() else { break };
            let run = Hole { start: begin.start, units: last.end() - begin.start };
            let others = run.units - room;
            if cheapest.is_none_or(|(least, _)| others < least) {
                cheapest = Some((others, run));
            }
            room -= begin.units;
        }
    }
    cheapest.map(|(_, run)| run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holes(list: &[(u16, u16)]) -> Holes {
        let mut holes = Holes::none();
        for &(start, units) in list {
            holes.add(Hole { start, units });
        }
        holes
    }

    #[test]
    fn holes_that_touch_become_one() {
        let mut some = holes(&[(10, 5), (20, 5)]);
        assert_eq!(some.add(Hole { start: 15, units: 5 }), Hole { start: 10, units: 15 });
        assert_eq!(some.as_slice(), [Hole { start: 10, units: 15 }]);
    }

    #[test]
    fn of_many_holes_the_smallest_is_not_recorded() {
        let many: Vec<(u16, u16)> = (0..HOLES_MAX as u16).map(|at| (at * 20, at + 3)).collect();
        let mut some = holes(&many);
        some.add(Hole { start: 1000, units: 2 });
        assert!(some.as_slice().iter().all(|hole| hole.units > 2));
        some.add(Hole { start: 1100, units: 9 });
        assert_eq!(some.as_slice().len(), HOLES_MAX);
        assert!(some.as_slice().iter().all(|hole| hole.units > 3));
    }

    #[test]
    fn the_smallest_hole_that_suffices_is_taken() {
        let mut some = holes(&[(0, 30), (100, 12), (200, 9)]);
        let index = some.tightest(10).expect("two suffice");
        assert_eq!(some.take(index, 10), (100, Some(Hole { start: 110, units: 2 })));
        let index = some.tightest(9).expect("two suffice");
        assert_eq!(some.take(index, 9), (200, None));
        assert_eq!(some.tightest(31), None);
    }

    #[test]
    fn the_run_with_the_fewest_items_between_its_holes_is_compacted() {
        let some = holes(&[(10, 5), (100, 6), (120, 5), (300, 9)]);
        let run = |units| cheapest_run(&some, 1000, 1010, units).map(|run| (run.start, run.end()));
        assert_eq!(run(11), Some((100, 125)));
        assert_eq!(run(20), Some((100, 309)));
        assert_eq!(run(10), Some((1000, 1010)));
        assert_eq!(run(35), Some((10, 1010)));
        assert_eq!(run(36), None);
    }
}
