//! The hits of LRU at half, once and twice a size: one list of keys in the order of use.
//!
//! A larger LRU cache has all keys of a smaller one. So the list is that of the largest, in three
//! parts: what the smallest has, what the next has beside that, and what only the largest has.

use crate::sampled_keys::{Entry, NONE, Position, SampledKeys};

/// How many sizes there are.
pub(crate) const SIZE_COUNT: usize = 3;

/// The three sizes, in halves of the cache.
const HALVES: [u64; SIZE_COUNT] = [1, 2, 4];

/// The list; its links are in the entries.
#[derive(Debug)]
pub(crate) struct LruSizes {
    newest: Position,
    /// The oldest key of each part.
    oldest: [Position; SIZE_COUNT],
    /// The bytes of each part.
    bytes: [u64; SIZE_COUNT],
}

impl Default for LruSizes {
    fn default() -> LruSizes {
        LruSizes { newest: NONE, oldest: [NONE; SIZE_COUNT], bytes: [0; SIZE_COUNT] }
    }
}

impl LruSizes {
    /// Returns the positions of the sizes at which the key of `entry` is there.
    pub fn sizes_with(&self, entry: &Entry) -> std::ops::Range<usize> {
        usize::from(entry.lru_size).min(SIZE_COUNT)..SIZE_COUNT
    }

    /// Makes `key` the one that was used last, and lets go what exceeds the sizes.
    pub fn use_key(&mut self, keys: &mut SampledKeys, key: Position, capacity: u64) {
        self.remove(keys, key);
        if self.newest != NONE {
            keys.at_mut(self.newest).newer = key;
        }
        let entry = keys.at_mut(key);
        (entry.older, entry.newer, entry.lru_size) = (self.newest, NONE, 0);
        self.bytes[0] += u64::from(entry.bytes);
        self.newest = key;
        if self.oldest[0] == NONE {
            self.oldest[0] = key;
        }
        for (part, halves) in HALVES.iter().enumerate() {
            let size = (capacity / 2).saturating_mul(*halves);
            while self.bytes[..=part].iter().sum::<u64>() > size && self.oldest[part] != NONE {
                self.pass_on(keys, part);
            }
        }
    }

    /// Takes `key` out, if it is there.
    pub fn remove(&mut self, keys: &mut SampledKeys, key: Position) {
        let Entry { older, newer, lru_size, bytes, .. } = *keys.at(key);
        let part = usize::from(lru_size);
        if part >= SIZE_COUNT {
            return;
        }
        if self.oldest[part] == key {
            self.oldest[part] = newer_in_part(keys, key);
        }
        match newer {
            NONE => self.newest = older,
            newer => keys.at_mut(newer).older = older,
        }
        if older != NONE {
            keys.at_mut(older).newer = newer;
        }
        self.bytes[part] -= u64::from(bytes);
        let entry = keys.at_mut(key);
        (entry.older, entry.newer, entry.lru_size) = (NONE, NONE, u8::MAX);
    }

    /// Notes that `key`, whose entry still has its old size, takes `bytes` from now on.
    pub fn resize(&mut self, keys: &SampledKeys, key: Position, bytes: u32) {
        let entry = keys.at(key);
        if let Some(part) = self.bytes.get_mut(usize::from(entry.lru_size)) {
            *part = *part - u64::from(entry.bytes) + u64::from(bytes);
        }
    }

    /// Makes the oldest key of `part` the newest of the next one; of the last part it goes.
    fn pass_on(&mut self, keys: &mut SampledKeys, part: usize) {
        let key = self.oldest[part];
        if part + 1 == SIZE_COUNT {
            return self.remove(keys, key);
        }
        self.oldest[part] = newer_in_part(keys, key);
        let entry = keys.at_mut(key);
        entry.lru_size += 1;
        self.bytes[part] -= u64::from(entry.bytes);
        self.bytes[part + 1] += u64::from(entry.bytes);
        if self.oldest[part + 1] == NONE {
            self.oldest[part + 1] = key;
        }
    }
}

/// Returns the next newer key of the same part.
fn newer_in_part(keys: &SampledKeys, key: Position) -> Position {
    let Entry { newer, lru_size, .. } = *keys.at(key);
    if newer != NONE && keys.at(newer).lru_size == lru_size { newer } else { NONE }
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;
    use crate::mark::Mark;

    /// What an LRU cache of `size` bytes has after `uses`: what fits of the keys by last use.
    fn held(uses: &[Position], size: u64, bytes_of: impl Fn(Position) -> u64) -> Vec<Position> {
        let (mut held, mut sum) = (Vec::new(), 0);
        for key in uses.iter().rev() {
            if held.contains(key) {
                continue;
            }
            sum += bytes_of(*key);
            if sum > size {
                break;
            }
            held.push(*key);
        }
        held.sort_unstable();
        held
    }

    /// Uses keys at random, and removes one in ten times if `removes`. What each size has then is
    /// exactly what was used last; after removals it may be less.
    fn check(removes: bool) {
        let (mut keys, mut lru, mut random) =
            (SampledKeys::default(), LruSizes::default(), Prng::new(4));
        let bytes_of = |key: Position| u64::from(key % 7 + 1);
        for key in 0..100 {
            keys.insert(Entry::new(u64::from(key), bytes_of(key) as u32, Mark::first(0)));
        }
        let mut uses = Vec::new();
        for _ in 0..3000 {
            let key = random.below(100) as Position;
            if removes && random.one_in(10) {
                lru.remove(&mut keys, key);
                uses.retain(|one| *one != key);
                continue;
            }
            lru.use_key(&mut keys, key, 100);
            uses.push(key);
            for (position, size) in [50, 100, 200].into_iter().enumerate() {
                let found =
                    (0..100).filter(|key| lru.sizes_with(keys.at(*key)).contains(&position));
                let found: Vec<Position> = found.collect();
                let expected = held(&uses, size, bytes_of);
                if removes {
                    // A key that was removed leaves room that only later keys fill.
                    assert!(found.iter().all(|key| expected.contains(key)), "{size}");
                } else {
                    assert_eq!(found, expected, "{size}");
                }
            }
        }
    }

    #[test]
    fn each_size_has_the_keys_that_were_used_last() {
        check(false);
    }

    #[test]
    fn no_size_has_others_than_were_used_last_where_some_are_removed() {
        check(true);
    }
}
