//! Keys that collide under the index hash, as a process that knows its key can make them: for the
//! tests and stress tests that show what such keys cost.
//!
//! The hash takes 16 bytes at a time: `state = mix(first ^ secret, second ^ state)`, and `mix(a,
//! b)` is the exclusive or of `a`, `b` and the halves of their product. With `a = 2^k` the
//! product's halves make `b` rotated by `k`, so that `mix(a, b) = t` is linear in `b`, and has two
//! solutions for each odd `k` where `t ^ a` has an even number of ones. Hence 64 blocks lead from
//! one state to one other, and four such blocks to millions of keys with one hash.

use crate::hash::KeyHasher;
use crate::prng::Prng;

const BLOCK_BYTES: usize = 16;
const BLOCKS: usize = 4;
/// The bytes of each key.
pub const KEY_BYTES: usize = (BLOCKS + 1) * BLOCK_BYTES;

/// How many keys there are at least.
pub const COUNT_MIN: u64 = 2_000_000;

/// Keys with one index hash, all of 64 bits, and one end.
pub struct Collisions {
    choices: [Vec<[u8; BLOCK_BYTES]>; BLOCKS],
    end: [u8; BLOCK_BYTES],
}

impl Collisions {
    /// Finds keys that collide under `hasher` and end with `end`; no other of their bytes is a
    /// brace, so that a hash tag in `end` is theirs.
    ///
    /// # Panics
    /// Where [`Collisions::find`] finds too few, which depends on `hasher` alone.
    pub fn new(hasher: &KeyHasher, end: [u8; BLOCK_BYTES]) -> Collisions {
        Collisions::find(hasher, end).expect("the secrets have hardly any braces")
    }

    /// As [`Collisions::new`]; none where fewer than [`COUNT_MIN`] are found. A block repeats all
    /// bytes of a secret but one, so that braces in it leave few blocks or none: of eight keys of a
    /// hash one is of that kind.
    pub fn find(hasher: &KeyHasher, end: [u8; BLOCK_BYTES]) -> Option<Collisions> {
        let (mut state, secrets) = hasher.secrets();
        let mut random = Prng::new(state);
        // Of a key of 80 bytes the first two blocks are mixed with one secret, the others with
        // another.
        let choices = [secrets[2], secrets[2], secrets[1], secrets[1]].map(|secret| {
            let next = random.next();
            let next = if next.count_ones() % 2 == 1 { next } else { next ^ 1 };
            let blocks = blocks(secret, state, next);
            state = next;
            blocks
        });
        Some(Collisions { choices, end }).filter(|found| found.count() >= COUNT_MIN)
    }

    /// Returns how many keys there are: some millions, and [`COUNT_MIN`] at least.
    pub fn count(&self) -> u64 {
        self.choices.iter().map(|choices| choices.len() as u64).product()
    }

    /// Returns the key `index`, which is another for each `index` in `0..self.count()`.
    pub fn key(&self, index: u64) -> [u8; KEY_BYTES] {
        let (mut key, mut rest) = ([0; KEY_BYTES], index);
        let (blocks, end) = key.split_at_mut(BLOCKS * BLOCK_BYTES);
        for (block, choices) in blocks.chunks_exact_mut(BLOCK_BYTES).zip(&self.choices) {
            block.copy_from_slice(&choices[(rest % choices.len() as u64) as usize]);
            rest /= choices.len() as u64;
        }
        assert_eq!(rest, 0, "key {index} of {}", self.count());
        end.copy_from_slice(&self.end);
        key
    }
}

/// Returns the blocks without a brace that lead from `state` to `next`.
fn blocks(secret: u64, state: u64, next: u64) -> Vec<[u8; BLOCK_BYTES]> {
    let mut found = Vec::new();
    for shift in (1..u64::BITS).step_by(2) {
        let power = 1 << shift;
        let solution = solve(next ^ power, shift);
        for second in [solution, !solution] {
            let words = [power ^ secret, second ^ state].map(u64::to_le_bytes);
            let mut block = [0; BLOCK_BYTES];
            block.copy_from_slice(words.as_flattened());
            if !block.iter().any(|byte| b"{}".contains(byte)) {
                found.push(block);
            }
        }
    }
    found
}

/// Returns a `b` with `b ^ b.rotate_left(shift) == target`, where `shift` is odd and `target` has
/// an even number of ones.
fn solve(target: u64, shift: u32) -> u64 {
    let (mut solution, mut at) = (0_u64, 0);
    for _ in 1..u64::BITS {
        let next = (at + shift) % u64::BITS;
        let bit = target >> next ^ solution >> at;
        solution |= (bit & 1) << next;
        at = next;
    }
    debug_assert_eq!(solution ^ solution.rotate_left(shift), target, "shift {shift}");
    solution
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::hash::HashKeys;

    #[test]
    fn secrets_with_braces_leave_too_few_keys() {
        let mut missed = 0;
        for number in 0..1_000 {
            let hasher = KeyHasher::new(HashKeys::fixed(number).index, 64);
            match Collisions::find(&hasher, *b"{t}aaaaaaaaaaaaa") {
                Some(found) => assert_ne!(found.key(0), found.key(COUNT_MIN - 1)),
                None => missed += 1,
            }
        }
        assert!((50..250).contains(&missed), "{missed}");
    }

    #[test]
    fn millions_of_keys_have_one_hash() {
        for number in 0..8 {
            let hasher = KeyHasher::new(HashKeys::fixed(number).index, 64);
            let collisions = Collisions::new(&hasher, *b"{t}aaaaaaaaaaaaa");
            assert!(collisions.count() >= COUNT_MIN, "{}", collisions.count());
            let first = collisions.key(0);
            let first = hasher.key(&first);
            let mut keys = HashSet::new();
            for index in (0..collisions.count()).step_by(997) {
                let bytes = collisions.key(index);
                let key = hasher.key(&bytes);
                assert_eq!((key.hash, key.shard), (first.hash, first.shard));
                assert!(keys.insert(bytes));
            }
        }
    }
}
