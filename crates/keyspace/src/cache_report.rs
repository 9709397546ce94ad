//! What an operator may know of the cache: what other memory and other policies would bring, and
//! where the memory of the keys is.

use base::prng::Prng;

use crate::eviction::adaptive::CacheObjective;
use crate::eviction::policy::EvictionPolicy;
use crate::keyspace::Keyspace;

/// How many keys of each shard are looked at for the sizes of all.
const SIZE_SAMPLES: u64 = 16;
/// The upper bounds of the size classes, in bytes; the last class has all above.
const CLASS_BYTES: [u64; 7] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 128 << 10, 1 << 20];

/// What is known of the cache.
#[derive(Clone, Debug)]
pub struct CacheReport {
    pub policy: EvictionPolicy,
    /// What the adaptive policies maximise.
    pub objective: CacheObjective,
    /// What the adaptive policy knows, where it is in force.
    pub adaptive: Option<AdaptiveReport>,
}

/// What the adaptive policy knows.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveReport {
    /// What the hit rate would be otherwise; nothing before [`AdaptiveReport::ADVICE_EPOCHS_MIN`]
    /// epochs, or without a memory limit.
    pub advice: Option<policy::Advice>,
    /// How many epochs of lookups have ended.
    pub epochs: u64,
    /// Whether there is a memory limit.
    pub has_limit: bool,
    /// The weight of recent use in what a key is worth, in percent.
    pub recent_percent: u32,
    /// Keys that came back and were known yet.
    pub ghost_hits: u64,
    /// The bytes of all keys.
    pub key_bytes: u64,
    /// The bytes that ghosts, windows and shadow caches take.
    pub policy_bytes: u64,
}

impl AdaptiveReport {
    /// How many epochs it takes until there is advice.
    pub const ADVICE_EPOCHS_MIN: u64 = policy::ADVICE_EPOCHS_MIN;
    /// How many lookups an epoch has for each key that the memory limit has room for.
    pub const EPOCH_TURNOVERS: u64 = policy::EPOCH_TURNOVERS;
}

/// An estimate of what the keys up to some size take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    /// The largest size; none in the last class.
    pub bytes_max: Option<u64>,
    pub keys: u64,
    pub bytes: u64,
}

impl Keyspace {
    /// Returns what is known of the cache. The caller holds no guard.
    pub fn cache_report(&self) -> CacheReport {
        let (objective, adaptive) = self.adaptive_report();
        CacheReport { policy: self.eviction_policy(), objective, adaptive }
    }

    /// Returns how many keys of which sizes there are, by a sample that `random` draws: some of
    /// each shard and database. The caller holds no guard; one shard is locked at a time.
    pub fn size_classes(&self, random: &mut Prng) -> Vec<SizeClass> {
        let mut sums = [(0.0, 0.0); CLASS_BYTES.len() + 1];
        for index in self.shard_indexes() {
            let mut guard = self.lock(index);
            let shard = guard.shard_mut(index);
            for (_, part) in shard.databases() {
                let ids = (0..SIZE_SAMPLES).filter_map(|_| part.table.sample(random.next()));
                let sizes: Vec<u64> = ids.map(|id| part.object(id).memory_bytes()).collect();
                let weight = part.counts().keys as f64 / sizes.len().max(1) as f64;
                for bytes in sizes {
                    let class = CLASS_BYTES.iter().position(|most| bytes <= *most);
                    let (keys, sum) = &mut sums[class.unwrap_or(CLASS_BYTES.len())];
                    *keys += weight;
                    *sum += weight * bytes as f64;
                }
            }
        }
        let bounds = CLASS_BYTES.into_iter().map(Some).chain([None]);
        let classes = bounds.zip(sums).map(|(bytes_max, (keys, bytes))| SizeClass {
            bytes_max,
            keys: keys.round() as u64,
            bytes: bytes.round() as u64,
        });
        classes.filter(|class| class.keys > 0).collect()
    }
}
