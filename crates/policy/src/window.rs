//! The admission window: the keys that came last.
//!
//! A new key stays while it is in the window, so that what was just written can be read and what is
//! read in bursts collects its hits. The window holds a hundredth of the shard's bytes. A key that
//! leaves it stays if it is worth more than the best victim found.

use std::collections::VecDeque;

use crate::scatter::Scatter;

/// The part of the shard's bytes that is in the window: one in so many.
const SHARE: u64 = 100;
/// At most one in so many keys of the shard is in the window, however small they are.
const KEYS_SHARE: u64 = 16;
/// The slots of the filter for each key of the window: of the other keys one in so many is taken
/// for one of the window, and is spared by one sample.
const SLOTS_PER_KEY: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Newcomer {
    hash: u64,
    bytes: u64,
}

/// The keys of one shard that came last, in their order.
#[derive(Debug)]
pub struct Window {
    scatter: Scatter,
    newcomers: VecDeque<Newcomer>,
    bytes: u64,
    /// How many of the keys have their slot here: scattered hashes modulo the length, a power of 2.
    filter: Vec<u8>,
}

impl Window {
    /// Returns a window without keys, whose filter knows keys by `scatter`.
    pub fn new(scatter: Scatter) -> Window {
        Window { scatter, newcomers: VecDeque::new(), bytes: 0, filter: Vec::new() }
    }

    /// Adds a key to a shard that has so many keys and bytes. What has waited for so long that the
    /// window is twice too large leaves.
    pub fn push(&mut self, hash: u64, bytes: u64, shard_keys: u64, shard_bytes: u64) {
        self.newcomers.push_back(Newcomer { hash, bytes });
        self.bytes += bytes;
        if self.newcomers.len() * SLOTS_PER_KEY / 2 > self.filter.len() {
            self.rebuild_filter();
        } else {
            self.count(hash);
        }
        let keys_max = (shard_keys / KEYS_SHARE).max(1) as usize;
        while self.newcomers.len() > 1
            && (self.newcomers.len() > keys_max || self.bytes > 2 * (shard_bytes / SHARE))
        {
            self.pop();
        }
    }

    /// Takes out the oldest key if the window of a shard with so many bytes is too large, and
    /// returns its hash. The key may have gone meanwhile.
    pub fn leave(&mut self, shard_bytes: u64) -> Option<u64> {
        if self.bytes <= shard_bytes / SHARE { None } else { self.pop() }
    }

    /// Returns whether the key is in the window; wrongly so for one in eight others.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        !self.newcomers.is_empty() && self.filter[self.slot(hash)] > 0
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        *self = Window::new(self.scatter);
    }

    /// Returns the memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.newcomers.capacity() * size_of::<Newcomer>() + self.filter.capacity()) as u64
    }

    fn pop(&mut self) -> Option<u64> {
        let Newcomer { hash, bytes } = self.newcomers.pop_front()?;
        self.bytes -= bytes;
        let slot = self.slot(hash);
        // One that has reached the end of its range stays there until the filter is built anew.
        if self.filter[slot] < u8::MAX {
            self.filter[slot] -= 1;
        }
        if self.newcomers.len() * SLOTS_PER_KEY * 8 < self.filter.len() {
            self.newcomers.shrink_to(self.newcomers.len() * 2);
            self.rebuild_filter();
        }
        Some(hash)
    }

    fn rebuild_filter(&mut self) {
        let slots = (self.newcomers.len() * SLOTS_PER_KEY).next_power_of_two();
        self.filter = vec![0; slots];
        for index in 0..self.newcomers.len() {
            self.count(self.newcomers[index].hash);
        }
    }

    fn count(&mut self, hash: u64) {
        let slot = self.slot(hash);
        self.filter[slot] = self.filter[slot].saturating_add(1);
    }

    fn slot(&self, hash: u64) -> usize {
        self.scatter.of(hash) as usize & (self.filter.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use base::prng::{Prng, mix};

    use super::*;

    #[test]
    fn keys_leave_in_their_order_once_the_window_is_too_large() {
        let window = &mut Window::new(Scatter(3));
        (1..=3).for_each(|key| window.push(mix(key), 10, 1000, 2000));
        assert!((1..=3).all(|key| window.may_contain(mix(key))));
        assert_eq!(window.leave(2000), Some(mix(1)));
        assert_eq!(window.leave(2000), None);
        assert!(!window.may_contain(mix(1)) && window.may_contain(mix(2)));
        assert_eq!(window.leave(0), Some(mix(2)));
        assert_eq!(window.leave(0), Some(mix(3)));
        assert_eq!(window.leave(0), None);
    }

    #[test]
    fn the_newest_key_is_in_the_window_of_a_small_shard() {
        let window = &mut Window::new(Scatter(3));
        for key in 1..100 {
            window.push(key, 1000, 5, 5000);
            assert!(window.may_contain(key) && window.newcomers.len() <= 1);
        }
    }

    #[test]
    fn memory_is_bounded_by_the_keys_of_the_shard() {
        let (window, random) = (&mut Window::new(Scatter(3)), &mut Prng::new(1));
        let mut others = 0;
        for _ in 0..100_000 {
            window.push(random.next(), 1, 10_000, 1 << 40);
            others += u64::from(window.may_contain(random.next()));
            assert!(window.memory_bytes() <= 10_000 / KEYS_SHARE * 64, "{window:?}");
        }
        assert!(others < 25_000, "{others} of 100,000 others are taken for newcomers");
        while window.leave(0).is_some() {}
        assert!(window.filter.iter().all(|count| *count == 0));
        assert!(window.memory_bytes() < 1024);
    }

    #[test]
    fn one_key_that_comes_again_and_again_leaves_nothing_behind() {
        let window = &mut Window::new(Scatter(3));
        (0..1000).for_each(|_| window.push(5, 1, 100_000, 1 << 40));
        while window.leave(0).is_some() {}
        assert!(!window.may_contain(5));
    }
}
