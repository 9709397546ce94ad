//! Eviction: which keys go when room is needed.

use std::sync::atomic::Ordering;

use base::ShardIndex;

use crate::keyspace::Keyspace;
use crate::room::SweepContext;

/// How many keys a choice looks at unless told: Redis's maxmemory-samples.
pub(crate) const SAMPLES_DEFAULT: u32 = 5;

/// Which keys may be evicted, by Redis's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// None: a write that lacks room is refused.
    NoEviction,
    /// Any, the least recently used of a sample first.
    AllkeysLru,
}

/// Good candidates of earlier samples.
#[derive(Debug, Default)]
pub(crate) struct EvictionPool {}

impl Keyspace {
    /// Returns the policy.
    pub fn eviction_policy(&self) -> EvictionPolicy {
        match self.eviction_policy.load(Ordering::Relaxed) {
            0 => EvictionPolicy::NoEviction,
            _ => EvictionPolicy::AllkeysLru,
        }
    }

    /// Sets the policy.
    pub fn set_eviction_policy(&self, policy: EvictionPolicy) {
        self.eviction_policy.store(policy as u8, Ordering::Relaxed);
    }

    /// Sets how many keys each choice looks at: maxmemory-samples.
    ///
    /// # Panics
    /// When `samples` is 0.
    pub fn set_eviction_samples(&self, samples: u32) {
        assert!(samples > 0, "a choice looks at one key at least");
        self.eviction_samples.store(samples, Ordering::Relaxed);
    }

    pub(crate) fn evict_round(&self, _shard: ShardIndex, _context: &mut SweepContext<'_>) -> u64 {
        0
    }
}
