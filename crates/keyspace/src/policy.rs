//! The eviction policies: which keys may go, and which of them goes first.

use std::sync::atomic::Ordering;

use arena::Entry;
use base::UnixMs;
use base::prng::Prng;

use crate::keyspace::Keyspace;
use crate::published::DatabaseCounts;
use crate::shard::is_expired;
use crate::tracking::{Tracking, last_access};

/// Which keys may be evicted and which of them first, by Redis's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EvictionPolicy {
    /// None: a write that lacks room is refused.
    NoEviction,
    /// Any, the least recently used first.
    AllKeysLru,
    /// Any, the least frequently used first.
    AllKeysLfu,
    /// Any, by chance.
    AllKeysRandom,
    /// Those with a time to live, the least recently used first.
    VolatileLru,
    /// Those with a time to live, the least frequently used first.
    VolatileLfu,
    /// Those with a time to live, by chance.
    VolatileRandom,
    /// Those with a time to live, the one that ends first.
    VolatileTtl,
}

impl EvictionPolicy {
    /// All policies, in the order in which Redis names them.
    pub const ALL: [EvictionPolicy; 8] = [
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileLfu,
        EvictionPolicy::VolatileRandom,
        EvictionPolicy::VolatileTtl,
        EvictionPolicy::AllKeysLru,
        EvictionPolicy::AllKeysLfu,
        EvictionPolicy::AllKeysRandom,
        EvictionPolicy::NoEviction,
    ];

    /// Returns Redis's name.
    pub const fn name(self) -> &'static str {
        match self {
            EvictionPolicy::NoEviction => "noeviction",
            EvictionPolicy::AllKeysLru => "allkeys-lru",
            EvictionPolicy::AllKeysLfu => "allkeys-lfu",
            EvictionPolicy::AllKeysRandom => "allkeys-random",
            EvictionPolicy::VolatileLru => "volatile-lru",
            EvictionPolicy::VolatileLfu => "volatile-lfu",
            EvictionPolicy::VolatileRandom => "volatile-random",
            EvictionPolicy::VolatileTtl => "volatile-ttl",
        }
    }

    /// Returns whether accesses are counted, not only dated.
    pub fn counts_accesses(self) -> bool {
        matches!(self, EvictionPolicy::AllKeysLfu | EvictionPolicy::VolatileLfu)
    }

    /// Returns whether it matters when or how often a key was used.
    pub fn minds_uses(self) -> bool {
        matches!(self, EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru)
            || self.counts_accesses()
    }

    /// Returns whether only keys with a time to live may go.
    pub fn is_volatile(self) -> bool {
        matches!(
            self,
            EvictionPolicy::VolatileLru
                | EvictionPolicy::VolatileLfu
                | EvictionPolicy::VolatileRandom
                | EvictionPolicy::VolatileTtl
        )
    }

    /// Returns whether chance alone decides.
    pub fn is_random(self) -> bool {
        matches!(self, EvictionPolicy::AllKeysRandom | EvictionPolicy::VolatileRandom)
    }

    /// Returns how many of so many keys may be evicted.
    pub(crate) fn candidates(self, counts: DatabaseCounts) -> u64 {
        match self {
            EvictionPolicy::NoEviction => 0,
            _ if self.is_volatile() => counts.volatile,
            _ => counts.keys,
        }
    }

    /// Returns whether `entry` may be evicted.
    #[inline]
    pub(crate) fn allows(self, entry: &Entry<'_>) -> bool {
        match self {
            EvictionPolicy::NoEviction => false,
            _ => !self.is_volatile() || entry.header().has_ttl(),
        }
    }

    /// Returns how soon `entry` should go: of two the one with the higher rank. What has expired
    /// goes first. As long as an entry is not used its rank does not fall.
    pub(crate) fn rank(
        self,
        entry: &Entry<'_>,
        tracking: &Tracking,
        now: UnixMs,
        random: &mut Prng,
    ) -> u64 {
        if is_expired(entry, now) {
            return u64::MAX;
        }
        let mark = entry.mark();
        match self {
            EvictionPolicy::NoEviction => 0,
            EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru => {
                AGE_MAX - last_access(mark, now).min(AGE_MAX)
            }
            // Of those that were used equally often the one that was not used for longest.
            EvictionPolicy::AllKeysLfu | EvictionPolicy::VolatileLfu => {
                let rarity = u64::from(u8::MAX - tracking.counter(mark, now));
                rarity << AGE_BITS | (AGE_MAX - last_access(mark, now).min(AGE_MAX))
            }
            EvictionPolicy::AllKeysRandom | EvictionPolicy::VolatileRandom => random.next() >> 1,
            EvictionPolicy::VolatileTtl => {
                let at = entry.expiry().map_or(i64::MAX, |at| at.0);
                i64::MAX.abs_diff(at).min(u64::MAX - 1)
            }
        }
    }
}

/// The bits that tell by the last access which entry is older: more than its ticks ever have.
const AGE_BITS: u32 = 48;
const AGE_MAX: u64 = (1 << AGE_BITS) - 1;

impl Keyspace {
    /// Returns the policy.
    pub fn eviction_policy(&self) -> EvictionPolicy {
        let number = self.eviction_policy.load(Ordering::Relaxed);
        let policy = EvictionPolicy::ALL.into_iter().find(|policy| *policy as u8 == number);
        policy.expect("only policies are stored")
    }

    /// Sets the policy. Accesses are tracked as it needs it from here on.
    pub fn set_eviction_policy(&self, policy: EvictionPolicy) {
        self.eviction_policy.store(policy as u8, Ordering::Relaxed);
        for shard in self.shard_indexes() {
            self.published(shard).tracking.set_counts(policy.counts_accesses());
        }
        self.want_touches();
    }

    /// Sets how seldom the counters of accesses grow (lfu-log-factor) and after how many minutes
    /// without an access they fall by one (lfu-decay-time; 0 is never).
    pub fn set_counter_rates(&self, log_factor: u32, decay_minutes: u32) {
        for shard in self.shard_indexes() {
            self.published(shard).tracking.set_rates(log_factor, decay_minutes);
        }
    }

    /// Sets how many keys each choice looks at: maxmemory-samples.
    ///
    /// # Panics
    /// When `samples` is 0.
    pub fn set_eviction_samples(&self, samples: u32) {
        assert!(samples > 0, "a choice looks at one key at least");
        self.eviction_samples.store(samples, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_policies_do() {
        for policy in EvictionPolicy::ALL {
            assert_eq!(policy.is_volatile(), policy.name().starts_with("volatile"));
            assert_eq!(policy.is_random(), policy.name().ends_with("random"));
            assert_eq!(policy.counts_accesses(), policy.name().ends_with("lfu"));
            let minds_uses = policy.name().ends_with("lru") || policy.name().ends_with("lfu");
            assert_eq!(policy.minds_uses(), minds_uses);
        }
    }
}
