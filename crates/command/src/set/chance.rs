//! Picking by chance.

use std::cell::Cell;
use std::collections::BTreeMap;

use base::prng::Prng;

/// Lets `draw` pick by chance.
pub(super) fn by_chance<R>(random: &Cell<Prng>, draw: impl FnOnce(&mut Prng) -> R) -> R {
    let mut prng = random.replace(Prng::new(0));
    let result = draw(&mut prng);
    random.set(prng);
    result
}

/// Returns up to `count` different numbers below `bound`, in an order that means nothing.
///
/// The start of a shuffle of all of them, of which only what was moved is kept.
pub(super) fn distinct(bound: usize, count: usize, random: &mut Prng) -> Vec<usize> {
    if count >= bound {
        return (0..bound).collect();
    }
    if count == 1 {
        return vec![random.below(bound as u64) as usize];
    }
    let mut moved: BTreeMap<usize, usize> = BTreeMap::new();
    let pick = |index: usize| {
        let other = index + random.below((bound - index) as u64) as usize;
        let own = moved.get(&index).copied().unwrap_or(index);
        moved.insert(other, own).unwrap_or(other)
    };
    (0..count).map(pick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_picked_once_and_all_as_often() {
        let mut random = Prng::new(1);
        let mut picked = [0; 10];
        for _ in 0..10_000 {
            let mut numbers = distinct(10, 3, &mut random);
            numbers.iter().for_each(|&number| picked[number] += 1);
            numbers.sort();
            numbers.dedup();
            assert_eq!(numbers.len(), 3);
        }
        assert!(picked.iter().all(|count| (2800..3200).contains(count)), "{picked:?}");
        assert_eq!(distinct(3, 9, &mut random), [0, 1, 2]);
        assert_eq!(distinct(3, 0, &mut random), [0_usize; 0]);
    }
}
