//! The least recently used key is evicted first.

use base::prng::Prng;

use crate::access_mark::last_access;
use crate::eviction::policy::{Candidate, Marks, Ranking, RankingKind, Row, Scope};

pub(crate) const ALLKEYS: Row = Row {
    name: "allkeys-lru",
    scope: Scope::All,
    marks: Marks::Dated,
    is_random: false,
    observes: false,
    samples_min: 1,
    block_samples_min: 1,
    samples_anywhere_min: 1,
    ranking: |_| RankingKind::Other(Box::new(Lru)),
};

pub(crate) const VOLATILE: Row = Row { name: "volatile-lru", scope: Scope::Volatile, ..ALLKEYS };

struct Lru;

impl Ranking for Lru {
    fn rank(&self, candidate: &Candidate<'_>, _random: &mut Prng) -> u64 {
        age(candidate)
    }
}

/// The bits that tell by the last access which entry is older: more than its ticks ever have.
pub(crate) const AGE_BITS: u32 = 48;
const AGE_MAX: u64 = (1 << AGE_BITS) - 1;

/// Returns a number of [`AGE_BITS`] bits that is the higher the longer ago the last access was.
pub(crate) fn age(candidate: &Candidate<'_>) -> u64 {
    AGE_MAX - last_access(candidate.object.mark(), candidate.now).min(AGE_MAX)
}
