//! Which register an element belongs to, and what it raises that to.

use super::{INDEX_BITS, REGISTER_COUNT, RUN_MAX};

/// What an element, or a register of another HyperLogLog, does to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Which register.
    pub index: u16,
    /// What it is at least then.
    pub run: u8,
}

impl Hit {
    /// Returns what `element` does: all bits of its hash but the lowest 14 are read as a number,
    /// whose zeroes at the end are counted, and one.
    #[inline]
    pub fn of(element: &[u8]) -> Hit {
        let hash = hash(element);
        let index = hash as u16 & (REGISTER_COUNT - 1) as u16;
        let rest = hash >> INDEX_BITS | 1 << (RUN_MAX - 1);
        Hit { index, run: rest.trailing_zeros() as u8 + 1 }
    }
}

/// The seed that Redis has for all HyperLogLogs.
const SEED: u64 = 0xadc8_3b19;
const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// Source: Appleby, MurmurHash2 for 64 bits, MurmurHash64A.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ last).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}
