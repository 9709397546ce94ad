//! The keys that the shadow caches follow: found by hash, drawn at random.
//!
//! Entries are side by side, so that one can be drawn; a new one takes the place of one that has
//! gone. A chain of entries begins at each head, of which there are as many as entries or more.

use base::prng::Prng;

use crate::mark::Mark;

/// The position of an entry: half as long as a hash would need it, since an entry has four.
pub(crate) type Position = u16;
/// No entry.
pub(crate) const NONE: Position = Position::MAX;
/// There are so many entries at most.
pub(crate) const COUNT_MAX: usize = NONE as usize;
/// What an entry takes, in bytes, with the two heads that there are for each at most.
pub(crate) const ENTRY_BYTES: u64 = (size_of::<Entry>() + 2 * size_of::<Position>()) as u64;
const _: () = assert!(ENTRY_BYTES == 28);
/// Room is made for a part of the entries at a time, one in so many, so that little of it is empty.
const GROWTH_SHARE: usize = 8;
/// How many positions are tried before all are looked at.
const TRIES_MAX: u32 = 64;

/// What the shadow caches know of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The lower half of the hash, and of the upper one the bits that say whether a key is
    /// followed: of the others two keys in 2^32 have the same.
    hash_low: u32,
    hash_middle: u16,
    /// The next entry of the chain.
    next: Position,
    pub bytes: u32,
    pub mark: Mark,
    /// The neighbours in the order of use.
    pub newer: Position,
    pub older: Position,
    /// A bit for each cache that has the key; [`FREE`] where there is no key.
    pub caches: u8,
    /// The smallest size at which LRU has the key: a position in `lru_sizes.rs`.
    pub lru_size: u8,
    /// It came last, and is not sampled.
    pub is_newcomer: bool,
    /// A lookup missed it in the real cache, which counted as the access.
    pub was_missed: bool,
}

/// The bits of a hash that an entry keeps.
const HASH_KEPT: u64 = (1 << 48) - 1;

/// The caches of a free position: more than there are.
const FREE: u8 = u8::MAX;

impl Entry {
    /// Returns the entry of a key that is in no cache.
    pub fn new(hash: u64, bytes: u32, mark: Mark) -> Entry {
        Entry {
            hash_low: hash as u32,
            hash_middle: (hash >> 32) as u16,
            next: NONE,
            bytes,
            mark,
            newer: NONE,
            older: NONE,
            caches: 0,
            lru_size: u8::MAX,
            is_newcomer: false,
            was_missed: false,
        }
    }

    /// Returns the hash, without the bits that are not kept.
    pub fn hash(&self) -> u64 {
        u64::from(self.hash_low) | u64::from(self.hash_middle) << 32
    }

    fn is_free(&self) -> bool {
        self.caches == FREE
    }
}

/// The keys, by positions that stay until the key is removed.
#[derive(Debug, Default)]
pub(crate) struct SampledKeys {
    /// Free positions are a list through their `next`.
    entries: Vec<Entry>,
    first_free: Option<Position>,
    len: usize,
    /// The first entry of each chain; a power of two of them.
    heads: Vec<Position>,
}

impl SampledKeys {
    /// Returns how many keys there are.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn at(&self, key: Position) -> &Entry {
        &self.entries[key as usize]
    }

    pub fn at_mut(&mut self, key: Position) -> &mut Entry {
        &mut self.entries[key as usize]
    }

    /// Returns the position of the key of `hash`.
    pub fn find(&self, hash: u64) -> Option<Position> {
        let mut key = *self.heads.get(self.head(hash))?;
        while key != NONE && self.at(key).hash() != hash & HASH_KEPT {
            key = self.at(key).next;
        }
        (key != NONE).then_some(key)
    }

    /// Adds `entry`, whose key is not there, and returns its position.
    ///
    /// # Panics
    /// When there are [`COUNT_MAX`] already.
    pub fn insert(&mut self, entry: Entry) -> Position {
        self.len += 1;
        let key = match self.first_free {
            Some(free) => {
                let next = self.at(free).next;
                self.first_free = (next != NONE).then_some(next);
                *self.at_mut(free) = entry;
                free
            }
            None => {
                if self.entries.len() == self.entries.capacity() {
                    self.entries.reserve_exact(self.entries.len() / GROWTH_SHARE + 1);
                }
                assert!(self.entries.len() < COUNT_MAX, "a position is a number of 16 bits");
                self.entries.push(entry);
                (self.entries.len() - 1) as Position
            }
        };
        if self.entries.len() > self.heads.len() {
            self.rebuild_heads();
        } else {
            self.link(key);
        }
        key
    }

    /// Removes the key at this position.
    pub fn remove(&mut self, key: Position) {
        let (head, next) = (self.head(self.at(key).hash()), self.at(key).next);
        if self.heads[head] == key {
            self.heads[head] = next;
        } else {
            let mut before = self.heads[head];
            while self.at(before).next != key {
                before = self.at(before).next;
            }
            self.at_mut(before).next = next;
        }
        let first_free = self.first_free.unwrap_or(NONE);
        let entry = self.at_mut(key);
        (entry.caches, entry.next) = (FREE, first_free);
        self.first_free = Some(key);
        self.len -= 1;
    }

    /// Returns the positions of all keys that there are now.
    pub fn all(&self) -> Vec<Position> {
        (0..self.entries.len() as Position).filter(|key| !self.at(*key).is_free()).collect()
    }

    /// Returns a random key.
    ///
    /// # Panics
    /// When there is none.
    pub fn sample(&self, random: &mut Prng) -> Position {
        assert!(self.len > 0, "there is a key to draw");
        let count = self.entries.len() as u64;
        for _ in 0..TRIES_MAX {
            let key = random.below(count) as Position;
            if !self.at(key).is_free() {
                return key;
            }
        }
        // Few positions are in use: the first one from a random position on.
        let start = random.below(count) as Position;
        let mut positions = (start..count as Position).chain(0..start);
        positions.find(|key| !self.at(*key).is_free()).expect("a key is there")
    }

    /// Returns the memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let entries = self.entries.capacity() * size_of::<Entry>();
        (entries + self.heads.capacity() * size_of::<Position>()) as u64
    }

    fn rebuild_heads(&mut self) {
        self.heads = vec![NONE; (self.entries.len() + 1).next_power_of_two()];
        for key in self.all() {
            self.link(key);
        }
    }

    fn link(&mut self, key: Position) {
        let head = self.head(self.at(key).hash());
        self.at_mut(key).next = self.heads[head];
        self.heads[head] = key;
    }

    fn head(&self, hash: u64) -> usize {
        hash as usize & self.heads.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn keys_are_found_and_drawn_as_long_as_they_are_there() {
        let (keys, random) = (&mut SampledKeys::default(), &mut Prng::new(1));
        let mut expected = BTreeMap::new();
        for step in 0..20_000_u32 {
            let hash = random.below(500);
            match keys.find(hash) {
                Some(key) => {
                    assert_eq!(expected.remove(&hash), Some(keys.at(key).bytes));
                    keys.remove(key);
                    assert_eq!(keys.find(hash), None);
                }
                None => {
                    assert_eq!(expected.insert(hash, step), None);
                    keys.insert(Entry::new(hash, step, Mark::first(0)));
                }
            }
            assert_eq!(keys.len(), expected.len());
            if !expected.is_empty() {
                let drawn = keys.at(keys.sample(random));
                assert_eq!(expected.get(&drawn.hash()), Some(&drawn.bytes));
            }
        }
        assert!(keys.memory_bytes() <= 500 * (ENTRY_BYTES + ENTRY_BYTES / GROWTH_SHARE as u64));
    }

    #[test]
    fn draws_end_where_nearly_nothing_is_left() {
        let (keys, random) = (&mut SampledKeys::default(), &mut Prng::new(1));
        let all: Vec<Position> =
            (0..5000).map(|hash| keys.insert(Entry::new(hash, 1, Mark::first(0)))).collect();
        all.iter().skip(1).for_each(|key| keys.remove(*key));
        assert_eq!(keys.sample(random), all[0]);
    }
}
