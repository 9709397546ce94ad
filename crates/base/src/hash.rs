//! The hashes of keys and members, and the key with everything that follows from it.
//!
//! There are two for what lasts. The index that other processes read is hashed by [`KeyHasher`],
//! whose key they know: it is fast, and the index bounds what keys that collide under it cost.
//! Everything in private memory is hashed by [`SecretHasher`], whose key no other process knows.

use std::fmt;

use rapidhash::v3::{DEFAULT_RAPID_SECRETS, RapidSecrets, rapidhash_v3_micro_inline};
use siphasher::sip::SipHasher13;

use crate::ids::ShardIndex;
use crate::prng::Prng;
use crate::slot::{SLOT_COUNT, Slot, key_slot};

/// The name of the index hash as eight letters, a little-endian word: rapidhash version 3, micro,
/// protected, with secrets that follow from the key as [`KeyHasher::new`] says.
pub const INDEX_HASH: u64 = u64::from_le_bytes(*b"rapid3mp");

/// What keys the hashes of one process.
///
/// Printing it shows no word of it.
#[derive(Clone, Copy)]
pub struct HashKeys {
    /// Keys the index hash; processes that may read the arena learn it.
    pub index: [u64; 4],
    /// Keys what lies in private memory; never leaves the process.
    pub secret: [u64; 2],
}

impl HashKeys {
    /// The bytes of randomness that keys take.
    pub const BYTES: usize = 48;

    /// Returns the keys that `random`, which is fit for secrets, makes.
    pub fn from_random(random: &[u8; HashKeys::BYTES]) -> HashKeys {
        let (words, _) = random.as_chunks();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        HashKeys { index: [word(0), word(1), word(2), word(3)], secret: [word(4), word(5)] }
    }

    /// Returns keys that follow from `number` and are no secret: for tests, and for what is to be
    /// the same in each run.
    pub fn fixed(number: u64) -> HashKeys {
        let mut random = Prng::new(number);
        let mut bytes = [0; HashKeys::BYTES];
        random.fill(&mut bytes);
        HashKeys::from_random(&bytes)
    }
}

impl fmt::Debug for HashKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HashKeys").finish_non_exhaustive()
    }
}

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

/// Hashes keys for the index and knows how many shards there are.
///
/// Processes that may read the arena know its key and can make keys that collide, as many as they
/// like: a folded multiplication is no obstacle to who knows its secrets. A remote client has no
/// way to them but to guess from the order of SCAN.
#[derive(Clone, Copy)]
pub struct KeyHasher {
    secrets: RapidSecrets,
    slots_per_shard_log2: u32,
}

impl KeyHasher {
    /// Returns a hasher for `shard_count` shards. Word `i` of its seed and secrets, in this order,
    /// is SipHash-1-3 under the first two words of `key` of its other two words and `i`, eight
    /// little-endian bytes each.
    ///
    /// # Panics
    /// When `shard_count` is not a power of two in `1..=4096`.
    pub fn new(key: [u64; 4], shard_count: usize) -> KeyHasher {
        assert!(shard_count.is_power_of_two(), "shard count {shard_count} is no power of two");
        assert!(shard_count <= 4096, "shard count {shard_count} is above 4096");
        let slots_per_shard_log2 = (SLOT_COUNT / shard_count).trailing_zeros();
        let derivation = SecretHasher::new([key[0], key[1]]);
        let word = |index: usize| {
            let words = [key[2], key[3], index as u64];
            derivation.hash(words.map(u64::to_le_bytes).as_flattened())
        };
        let secrets = std::array::from_fn(|index| word(index + 1));
        KeyHasher { secrets: RapidSecrets { seed: word(0), secrets }, slots_per_shard_log2 }
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
        rapidhash_v3_micro_inline::<true, true>(bytes, &self.secrets)
    }

    /// Returns the shard that owns `slot`: shards own contiguous ranges of slots.
    #[inline]
    pub fn shard(&self, slot: Slot) -> ShardIndex {
        ShardIndex(slot.0 >> self.slots_per_shard_log2)
    }

    /// Returns the seed and the secrets of the hash function, as whoever knows the key can compute
    /// them too.
    pub fn secrets(&self) -> (u64, [u64; 7]) {
        (self.secrets.seed, self.secrets.secrets)
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyHasher").finish_non_exhaustive()
    }
}

/// Hashes what lies in private memory: SipHash-1-3 under a key that nobody else knows.
///
/// A pseudorandom function, because clients see some of what it returns: the cursors and the order
/// of SSCAN, HSCAN and ZSCAN tell the low bits, and nothing about its key follows from them.
#[derive(Clone, Copy)]
pub struct SecretHasher(SipHasher13);

impl SecretHasher {
    /// Returns the hasher of `key`.
    pub fn new(key: [u64; 2]) -> SecretHasher {
        SecretHasher(SipHasher13::new_with_keys(key[0], key[1]))
    }

    /// Returns the hash of `bytes`.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        self.0.hash(bytes)
    }
}

/// Returns a hash of `bytes` under no key, in a fifth of the time that [`SecretHasher`] takes: for
/// a table that lives as long as one command. A client can choose bytes that collide, so that the
/// table has to bound what these cost.
#[inline]
pub fn unkeyed_hash(bytes: &[u8]) -> u64 {
    rapidhash_v3_micro_inline::<false, false>(bytes, &DEFAULT_RAPID_SECRETS)
}

impl fmt::Debug for SecretHasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SecretHasher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{DefaultHasher, Hasher};

    use super::*;

    /// Keys that collide under rapidhash's public secrets without protection, whatever the seed.
    fn public_collisions(family: usize) -> impl Iterator<Item = Vec<u8>> {
        (0..4096_u64).map(move |number| {
            let free = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
            match family {
                0 => [&0x8bb8_4b93_962e_acc9_u64.to_le_bytes(), &free[..]].concat(),
                1 => [&0x8bb8_4b93_962e_acc9_u64.to_le_bytes(), &free[..2]].concat(),
                _ => {
                    let head = 0x4b33_a62e_d433_d4a3_u64.to_le_bytes();
                    [&head, &free, &b"{t}aaaaaaaaaaaaa"[..]].concat()
                }
            }
        })
    }

    #[test]
    fn keys_that_collide_under_public_secrets_do_not_collide() {
        for number in 0..16 {
            let keys = HashKeys::fixed(number);
            let (index, secret) = (KeyHasher::new(keys.index, 1), SecretHasher::new(keys.secret));
            for family in 0..3 {
                let names: HashSet<Vec<u8>> = public_collisions(family).collect();
                let low = |hash: u64| hash as u32;
                let ours: HashSet<u32> = names.iter().map(|name| low(index.hash(name))).collect();
                // Of 4,096 random hashes two collide in 32 bits in one of 512 cases.
                assert!(ours.len() + 2 >= names.len(), "index, family {family}");
                let ours: HashSet<u32> = names.iter().map(|name| low(secret.hash(name))).collect();
                assert!(ours.len() + 2 >= names.len(), "secret, family {family}");
            }
        }
    }

    #[test]
    fn every_word_of_the_key_changes_the_index_hash() {
        let hash = |key| KeyHasher::new(key, 1).hash(b"key");
        let plain = hash([0; 4]);
        for word in 0..4 {
            for bit in [0, 17, 63] {
                let mut key = [0; 4];
                key[word] = 1 << bit;
                assert_ne!(hash(key), plain, "word {word}, bit {bit}");
            }
        }
    }

    #[test]
    fn index_hash_is_the_one_that_other_processes_compute() {
        let hasher = KeyHasher::new([1, 2, 3, 4], 64);
        let bytes: Vec<u8> = (0..=255).collect();
        let hashes = [0, 1, 3, 4, 7, 8, 16, 17, 32, 48, 64, 80, 81, 200, 256]
            .map(|length| hasher.hash(&bytes[..length]));
        let expected = [
            0x212c_3e14_385a_5641,
            0x02aa_dc0e_3187_e383,
            0x9b79_519f_c3bc_4800,
            0x53d7_9dbb_7294_698a,
            0x19cc_c374_e615_a739,
            0x1abb_b614_0f30_5554,
            0x39e0_f0a1_508b_4183,
            0x7c0a_35c3_dc76_89f6,
            0x8f5d_6def_d163_10ff,
            0xa5ae_5e51_c9dd_1dce,
            0x4411_e2ee_b99a_ed4a,
            0x942b_e5d3_d2da_6924,
            0x3f9b_fdca_8d28_49ba,
            0x2211_ec67_27a4_379e,
            0xd768_7427_fc6e_cc6c,
        ];
        assert_eq!(hashes, expected, "another hash needs another name");
    }

    #[test]
    fn secret_hash_is_siphash_1_3() {
        let bytes: Vec<u8> = (0..=99).collect();
        for length in 0..bytes.len() {
            let mut expected = DefaultHasher::new();
            expected.write(&bytes[..length]);
            assert_eq!(SecretHasher::new([0, 0]).hash(&bytes[..length]), expected.finish());
        }
        assert_ne!(SecretHasher::new([0, 1]).hash(b"key"), SecretHasher::new([1, 0]).hash(b"key"));
    }

    #[test]
    fn printing_shows_no_key() {
        let keys = HashKeys::fixed(5);
        let hashers = (KeyHasher::new(keys.index, 1), SecretHasher::new(keys.secret));
        let text = format!("{keys:?} {hashers:?}");
        assert_eq!(text, "HashKeys { .. } (KeyHasher { .. }, SecretHasher { .. })");
    }
}
