//! A digest of the dataset that does not depend on order, shards or history.

use std::fmt;

use arena::Entry;
use base::{DatabaseIndex, KeyHasher};

/// A fixed seed: digests of different processes can be compared.
const SEEDS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03];

/// The sum over all entries of a 128-bit hash of database, key, type, value and expiry. Encodings
/// and access times do not count. Resists accidents, not adversaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatasetDigest(u128);

impl DatasetDigest {
    /// Adds one entry of `database`.
    pub fn add(&mut self, database: DatabaseIndex, entry: &Entry<'_>) {
        let [low, high] = SEEDS.map(|seed| lane(seed, database, entry));
        self.0 = self.0.wrapping_add(u128::from(high) << 64 | u128::from(low));
    }
}

impl fmt::Display for DatasetDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

fn lane(seed: u64, database: DatabaseIndex, entry: &Entry<'_>) -> u64 {
    let hasher = KeyHasher::new(seed, 1);
    let expiry = entry.expiry();
    let words = [
        u64::from(database.0),
        hasher.hash(entry.key()),
        entry.value_type() as u64,
        hasher.hash(entry.value()),
        u64::from(expiry.is_some()),
        expiry.map_or(0, |at| at.0 as u64),
    ];
    words.into_iter().fold(seed, |state, word| mix(state ^ word))
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
