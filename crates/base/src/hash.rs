//! The hash of a key, and the key with everything that follows from it.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_micro_inline};

use crate::ids::ShardIndex;
use crate::slot::{SLOT_COUNT, Slot, key_slot};

/// A key as the caller gave it, with its hash, its cluster slot and its shard, computed once.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The bytes of the key, any bytes, up to 512 MiB.
    pub bytes: &'a [u8],
    /// The keyed 64-bit hash that the index uses.
    pub hash: u64,
    /// The cluster slot.
    pub slot: Slot,
    /// The shard that owns the slot.
    pub shard: ShardIndex,
}

/// Hashes keys under one seed and knows how many shards there are.
///
/// The seed is drawn once per process by the caller. Processes that may read the arena know it,
/// so it resists accidents and remote clients, not those readers.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    seed: u64,
    secrets: RapidSecrets,
    slots_per_shard_log2: u32,
}

impl KeyHasher {
    /// Returns a hasher for `shard_count` shards.
    ///
    /// # Panics
    /// When `shard_count` is not a power of two in `1..=4096`.
    pub fn new(seed: u64, shard_count: usize) -> KeyHasher {
        assert!(shard_count.is_power_of_two(), "shard count {shard_count} is no power of two");
        assert!(shard_count <= 4096, "shard count {shard_count} is above 4096");
        let slots_per_shard_log2 = (SLOT_COUNT / shard_count).trailing_zeros();
        KeyHasher { seed, secrets: RapidSecrets::seed_cpp(seed), slots_per_shard_log2 }
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns `bytes` with its hash, slot and shard.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        let slot = key_slot(bytes);
        Key { bytes, hash: self.hash(bytes), slot, shard: self.shard(slot) }
    }

    /// Returns the index hash of `bytes`.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        rapidhash_v3_micro_inline::<true, false>(bytes, &self.secrets)
    }

    /// Returns the shard that owns `slot`: shards own contiguous ranges of slots.
    #[inline]
    pub fn shard(&self, slot: Slot) -> ShardIndex {
        ShardIndex(slot.0 >> self.slots_per_shard_log2)
    }
}
