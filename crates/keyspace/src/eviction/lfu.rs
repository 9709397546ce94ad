//! The least frequently used key is evicted first; of those that were used equally often, the one
//! that was not used for longest.

use base::prng::Prng;

use crate::eviction::lru::{AGE_BITS, age};
use crate::eviction::policy::{Candidate, Marks, Ranking, RankingKind, Row, Scope};

pub(crate) const ALLKEYS: Row = Row {
    name: "allkeys-lfu",
    scope: Scope::All,
    marks: Marks::Counted,
    is_random: false,
    observes: false,
    samples_min: 1,
    block_samples_min: 1,
    samples_anywhere_min: 1,
    ranking: |_| RankingKind::Other(Box::new(Lfu)),
};

pub(crate) const VOLATILE: Row = Row { name: "volatile-lfu", scope: Scope::Volatile, ..ALLKEYS };

struct Lfu;

impl Ranking for Lfu {
    fn rank(&self, candidate: &Candidate<'_>, _random: &mut Prng) -> u64 {
        let counter = candidate.tracking.counter(candidate.object.mark(), candidate.now);
        u64::from(u8::MAX - counter) << AGE_BITS | age(candidate)
    }
}
