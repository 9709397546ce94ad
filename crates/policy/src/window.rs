//! The admission window: the keys that came last.
//!
//! A new key stays while it is in the window, so that what was just written can be read and what is
//! read in bursts collects its hits. The window holds a hundredth of the shard's bytes. A key that
//! leaves it stays if it is worth more than the best victim found.
//!
//! What was used since the oldest key of the window came is spared with those of the window: asking
//! for a key's own place there would cost a cache miss for each victim, and what has been used so
//! lately is seldom the one that should go.

use std::collections::VecDeque;

use crate::mark::{Mark, Tick};

/// The part of the shard's bytes that is in the window: one in so many.
const SHARE: u64 = 100;
/// At most one in so many keys of the shard is in the window, however small they are.
const KEYS_SHARE: u64 = 16;
/// Room is made for a part of the keys at a time, one in so many, so that little of it is empty.
const GROWTH_SHARE: usize = 8;
/// How many keys leave before one that is asked of the cache: it is in the line behind that of the
/// next key.
const LATER: usize = 4;
const _: () = assert!(LATER * size_of::<Newcomer>() == 64);

/// A key as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// The hash that it is known by.
    pub hash: u64,
    /// What it takes; as many as there are numbers for.
    bytes: u32,
    /// Its mark, as long as it is not used.
    pub mark: Mark,
}

impl Newcomer {
    /// Returns a key that takes `bytes`.
    pub fn new(hash: u64, bytes: u64, mark: Mark) -> Newcomer {
        Newcomer { hash, bytes: u32::try_from(bytes).unwrap_or(u32::MAX), mark }
    }

    /// Returns what it takes.
    pub fn bytes(self) -> u64 {
        u64::from(self.bytes)
    }
}

/// The keys of one shard that came last, in their order.
#[derive(Debug, Default)]
pub struct Window {
    newcomers: VecDeque<Newcomer>,
    /// When the oldest of them came: asked for each key that is drawn.
    oldest: Option<Tick>,
    bytes: u64,
}

impl Window {
    /// Adds a key to a shard that has so many keys and bytes. What has waited for so long that the
    /// window is twice too large leaves.
    pub fn push(&mut self, newcomer: Newcomer, shard_keys: u64, shard_bytes: u64) {
        if self.newcomers.len() == self.newcomers.capacity() {
            self.newcomers.reserve_exact(self.newcomers.len() / GROWTH_SHARE + 1);
        }
        self.newcomers.push_back(newcomer);
        self.oldest.get_or_insert(newcomer.mark.stamp());
        self.bytes += newcomer.bytes();
        let keys_max = (shard_keys / KEYS_SHARE).max(1) as usize;
        while self.newcomers.len() > 1
            && (self.newcomers.len() > keys_max || self.bytes > 2 * (shard_bytes / SHARE))
        {
            self.pop();
        }
    }

    /// Takes out the oldest key if the window of a shard with so many bytes is too large. The key
    /// may have gone meanwhile.
    pub fn leave(&mut self, shard_bytes: u64) -> Option<Newcomer> {
        if self.bytes <= shard_bytes / SHARE { None } else { self.pop() }
    }

    /// Returns whether a key of `mark` was used since the oldest one of the window came.
    #[inline]
    pub fn may_contain(&self, mark: Mark, now: Tick) -> bool {
        self.oldest.is_some_and(|oldest| mark.age(now) <= now.wrapping_sub(oldest))
    }

    /// Returns the key that leaves a few keys behind the next one.
    #[inline]
    pub fn leaves_later(&self) -> Option<&Newcomer> {
        self.newcomers.get(LATER)
    }

    /// Returns the key that came last.
    #[inline]
    pub fn newest(&self) -> Option<&Newcomer> {
        self.newcomers.back()
    }

    /// Returns the memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.newcomers.capacity() * size_of::<Newcomer>()) as u64
    }

    fn pop(&mut self) -> Option<Newcomer> {
        let newcomer = self.newcomers.pop_front()?;
        self.oldest = self.newcomers.front().map(|oldest| oldest.mark.stamp());
        self.bytes -= newcomer.bytes();
        let len = self.newcomers.len();
        if len * 2 < self.newcomers.capacity() {
            self.newcomers.shrink_to(len + len / GROWTH_SHARE + 1);
        }
        Some(newcomer)
    }
}

#[cfg(test)]
mod tests {
    use base::prng::mix;

    use super::*;

    fn newcomer(key: u64, bytes: u64, stamp: Tick) -> Newcomer {
        Newcomer::new(mix(key), bytes, Mark::first(stamp))
    }

    #[test]
    fn keys_leave_in_their_order_once_the_window_is_too_large() {
        let window = &mut Window::default();
        let newcomers = [1, 2, 3].map(|key| newcomer(key, 10, key as Tick));
        newcomers.iter().for_each(|one| window.push(*one, 1000, 2000));
        assert_eq!(window.leave(2000), Some(newcomers[0]));
        assert_eq!(window.leave(2000), None);
        assert_eq!(window.leave(0), Some(newcomers[1]));
        assert_eq!(window.leave(0), Some(newcomers[2]));
        assert_eq!(window.leave(0), None);
    }

    #[test]
    fn what_was_used_since_the_oldest_came_counts_as_new() {
        let window = &mut Window::default();
        // The clock passes the end of its range meanwhile.
        let (first, second) = (Tick::MAX, 2);
        window.push(newcomer(1, 10, first), 1000, 2000);
        window.push(newcomer(2, 10, second), 1000, 2000);
        let are_new = |window: &Window| {
            [first - 1, first, 1, second, 3].map(|used| window.may_contain(Mark::first(used), 3))
        };
        assert_eq!(are_new(window), [false, true, true, true, true]);
        assert!(window.leave(0).is_some());
        assert_eq!(are_new(window), [false, false, false, true, true]);
        assert!(window.leave(0).is_some());
        assert_eq!(are_new(window), [false; 5]);
    }

    #[test]
    fn the_newest_key_is_in_the_window_of_a_small_shard() {
        let window = &mut Window::default();
        for key in 1..100 {
            window.push(newcomer(key, 1000, key as Tick), 5, 5000);
            assert!(window.may_contain(Mark::first(key as Tick), 100));
            assert!(!window.may_contain(Mark::first(key as Tick - 1), 100));
        }
    }

    #[test]
    fn memory_is_bounded_by_the_keys_of_the_shard() {
        let window = &mut Window::default();
        for key in 0..100_000 {
            window.push(newcomer(key, 1, 0), 10_000, 1 << 40);
            assert!(window.memory_bytes() <= 10_000 / KEYS_SHARE * 32, "{window:?}");
        }
        while window.leave(0).is_some() {}
        assert!(window.memory_bytes() < 256);
    }
}
