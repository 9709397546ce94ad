//! What eviction remembers from choice to choice: the candidates that should go first.

use crate::eviction::policy::EvictionPolicy;

/// How many candidates a shard remembers: Redis's EVPOOL_SIZE.
pub(crate) const CANDIDATES_MAX: usize = 16;

/// The candidates that should go first of all that were drawn: keys of a shard, or blocks of all.
#[derive(Debug)]
pub(crate) struct EvictionPool<C> {
    /// By which policy the candidates are ranked.
    policy: Option<EvictionPolicy>,
    /// By their ranks, the lowest first.
    candidates: Vec<C>,
}

/// What a pool remembers.
pub(crate) trait Pooled {
    fn rank(&self) -> u64;

    fn is_same(&self, other: &Self) -> bool;
}

impl<C> Default for EvictionPool<C> {
    fn default() -> EvictionPool<C> {
        EvictionPool { policy: None, candidates: Vec::new() }
    }
}

impl<C: Pooled> EvictionPool<C> {
    /// Forgets candidates that another policy ranked, or that are as good as any other.
    pub fn prepare(&mut self, policy: EvictionPolicy) {
        if self.policy != Some(policy) || policy.is_random() {
            self.candidates.clear();
            self.policy = Some(policy);
        }
        self.candidates.reserve_exact(CANDIDATES_MAX - self.candidates.len());
    }

    fn is_full(&self) -> bool {
        self.candidates.len() == CANDIDATES_MAX
    }

    /// Returns whether a candidate of `rank` is among those of the highest ranks.
    #[inline]
    pub fn wants(&self, rank: u64) -> bool {
        !self.is_full() || rank > self.candidates[0].rank()
    }

    /// Remembers `candidate` if it is among those of the highest ranks.
    pub fn offer(&mut self, mut candidate: C) {
        if let Some(known) = self.candidates.iter().position(|one| one.is_same(&candidate)) {
            // Whichever is too high is found out when the candidate is to go.
            let known = self.candidates.remove(known);
            if known.rank() > candidate.rank() {
                candidate = known;
            }
        } else if !self.wants(candidate.rank()) {
            return;
        } else if self.is_full() {
            self.candidates.remove(0);
        }
        let place = self.candidates.partition_point(|one| one.rank() <= candidate.rank());
        self.candidates.insert(place, candidate);
    }

    /// Takes out the best victim.
    pub fn take(&mut self) -> Option<C> {
        self.candidates.pop()
    }

    /// Returns the `count` best victims, or as many as there are.
    pub fn best(&self, count: usize) -> &[C] {
        &self.candidates[self.candidates.len().saturating_sub(count)..]
    }

    /// Returns whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Forgets the candidates of which `is_kept` does not hold.
    pub fn retain(&mut self, is_kept: impl Fn(&C) -> bool) {
        self.candidates.retain(is_kept);
    }

    /// Returns the memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.candidates.capacity() * size_of::<C>()) as u64
    }
}
