//! The first of many in order, as Redis puts them: what is equal stands where its way of sorting
//! leaves it, which decides what a COUNT returns of places that are equally far away.

use std::cmp::Ordering;
use std::ops::Range;

/// So few are sorted by insertion.
const FEW: usize = 7;
/// More have a pivot that is chosen among nine.
const MANY: usize = 40;

/// Puts the first `count` of `items` in order.
///
/// The items are divided into those before a pivot, its equals and those behind it, over and over,
/// where some of the first `count` are among them. An order of items that makes that slow gives up
/// Redis's order of equals: the rest is sorted otherwise.
///
/// Source: J. L. Bentley and M. D. McIlroy, "Engineering a sort function", 1993; Redis 7.2,
/// `pqsort`.
pub(super) fn sort_first<T: Copy>(
    items: &mut [T],
    count: usize,
    compare: impl Fn(&T, &T) -> Ordering,
) {
    let mut parts = Parts { waiting: [const { 0..0 }; Parts::DEPTH_MAX], count: 0 };
    parts.push(0..items.len());
    // Each level divides all items once; a good pivot leaves a fraction of them for the next.
    let levels = 2 * (items.len().max(2).ilog2() as usize + 1);
    let mut steps_left = levels * items.len();
    while let Some(part) = parts.pop() {
        let Some(left) = steps_left.checked_sub(part.len()) else {
            items[part].sort_by(&compare);
            continue;
        };
        steps_left = left;
        let slice = &mut items[part.clone()];
        if slice.len() < FEW {
            insert_each(slice, &compare);
            continue;
        }
        let (before, behind) = divide(slice, &compare);
        let mut sides = [part.start..part.start + before, part.end - behind..part.end];
        // The shorter one is next, so that few wait.
        sides.sort_by_key(|side| std::cmp::Reverse(side.len()));
        for side in sides {
            if side.len() > 1 && side.start < count {
                parts.push(side);
            }
        }
    }
}

/// Parts that are yet to be sorted.
struct Parts {
    waiting: [Range<usize>; Parts::DEPTH_MAX],
    count: usize,
}

impl Parts {
    /// Of two parts the longer waits: each is at most half of the one below it.
    const DEPTH_MAX: usize = usize::BITS as usize + 1;

    fn push(&mut self, part: Range<usize>) {
        self.waiting[self.count] = part;
        self.count += 1;
    }

    fn pop(&mut self) -> Option<Range<usize>> {
        self.count = self.count.checked_sub(1)?;
        Some(self.waiting[self.count].clone())
    }
}

fn insert_each<T: Copy>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && compare(&items[at - 1], &items[at]).is_gt() {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Puts a pivot and its equals in the middle; returns how many come before and behind them.
fn divide<T: Copy>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) -> (usize, usize) {
    let pivot = pivot_of(items, compare);
    items.swap(0, pivot);
    // Equals gather at both ends:  = = < < <  ?  > > > =
    let (mut equals_low, mut low) = (1, 1);
    let (mut high, mut equals_high) = (items.len(), items.len());
    loop {
        while low < high {
            match compare(&items[low], &items[0]) {
                Ordering::Greater => break,
                Ordering::Equal => {
                    items.swap(equals_low, low);
                    equals_low += 1;
                }
                Ordering::Less => {}
            }
            low += 1;
        }
        while low < high {
            match compare(&items[high - 1], &items[0]) {
                Ordering::Less => break,
                Ordering::Equal => {
                    equals_high -= 1;
                    items.swap(high - 1, equals_high);
                }
                Ordering::Greater => {}
            }
            high -= 1;
        }
        if low >= high {
            break;
        }
        items.swap(low, high - 1);
        low += 1;
        high -= 1;
    }
    let (before, behind) = (low - equals_low, equals_high - high);
    swap_ends(&mut items[..low], before.min(equals_low));
    let at_end = items.len() - equals_high;
    swap_ends(&mut items[low..], behind.min(at_end));
    (before, behind)
}

/// Swaps the first `count` items with the last ones.
fn swap_ends<T>(items: &mut [T], count: usize) {
    let rest = items.len() - count;
    for index in 0..count {
        items.swap(index, rest + index);
    }
}

/// Returns the position of a middle one: of three, or of three such for many.
fn pivot_of<T>(items: &[T], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let count = items.len();
    let (mut first, mut middle, mut last) = (0, count / 2, count - 1);
    if count == FEW {
        return middle;
    }
    let median = |a, b, c| median(items, [a, b, c], compare);
    if count > MANY {
        let step = count / 8;
        first = median(first, first + step, first + 2 * step);
        middle = median(middle - step, middle, middle + step);
        last = median(last - 2 * step, last - step, last);
    }
    median(first, middle, last)
}

fn median<T>(items: &[T], [a, b, c]: [usize; 3], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let is_less = |a: usize, b: usize| compare(&items[a], &items[b]).is_lt();
    match is_less(a, b) {
        true if is_less(b, c) => b,
        true => {
            if is_less(a, c) {
                c
            } else {
                a
            }
        }
        false if compare(&items[b], &items[c]).is_gt() => b,
        false => {
            if is_less(a, c) {
                a
            } else {
                c
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use base::prng::Prng;

    use super::*;

    fn check(keys: impl Iterator<Item = u64>, count: usize) {
        let mut items: Vec<(u64, usize)> = keys.zip(0..).collect();
        let mut expected = items.clone();
        expected.sort_unstable();
        sort_first(&mut items, count, |a, b| a.0.cmp(&b.0));
        let keys = |items: &[(u64, usize)]| -> Vec<u64> {
            items.iter().take(count).map(|item| item.0).collect()
        };
        assert_eq!(keys(&items), keys(&expected));
        items.sort_unstable();
        assert_eq!(items, expected, "none is lost");
    }

    #[test]
    fn the_first_are_in_order() {
        let mut random = Prng::new(1);
        for round in 0..3_000 {
            let length = random.below([8, 60, 3_000][round % 3]) as usize;
            let bound = [2, 10, 1_000_000][random.below(3) as usize];
            let count = random.below(length as u64 + 2) as usize;
            check((0..length).map(|_| random.below(bound)), count);
            check((0..length as u64).map(|number| number % bound), count);
            check((0..length as u64).rev(), count);
        }
    }

    /// An adversary that decides how items compare only when it is asked, so that each pivot turns
    /// out to be nearly the least.
    ///
    /// Source: M. D. McIlroy, "A killer adversary for quicksort", 1999.
    #[test]
    fn no_order_of_items_makes_it_slow() {
        const COUNT: usize = 20_000;
        const GAS: u32 = u32::MAX;
        let values: Vec<Cell<u32>> = (0..COUNT).map(|_| Cell::new(GAS)).collect();
        let (solid, candidate, steps) = (Cell::new(0), Cell::new(0), Cell::new(0_u64));
        let compare = |a: &usize, b: &usize| {
            steps.set(steps.get() + 1);
            if values[*a].get() == GAS && values[*b].get() == GAS {
                let frozen = if *a == candidate.get() { *a } else { *b };
                values[frozen].set(solid.replace(solid.get() + 1));
            }
            if values[*a].get() == GAS {
                candidate.set(*a);
            } else if values[*b].get() == GAS {
                candidate.set(*b);
            }
            values[*a].get().cmp(&values[*b].get())
        };
        let mut items: Vec<usize> = (0..COUNT).collect();
        sort_first(&mut items, COUNT, compare);
        assert!(steps.get() < 4_000_000, "{} comparisons", steps.get());
        assert!(items.is_sorted_by_key(|item| values[*item].get()));
    }
}
