//! What tests and `forebay-peer`, a client in a process of its own, have to agree on.

use std::hash::{DefaultHasher, Hasher};

/// Returns `length` bytes that differ from one `seed` to the next.
pub fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + seed * 31 + index / 251) as u8).collect()
}

/// Returns a number that stands for `value` where it is told in a line.
pub fn digest(value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(value);
    hasher.finish()
}
