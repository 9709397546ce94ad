//! Any key is evicted, or none.

use base::prng::Prng;

use crate::eviction::policy::{Candidate, Marks, Ranking, RankingKind, Row, Scope};

pub(crate) const ALLKEYS: Row = Row {
    name: "allkeys-random",
    scope: Scope::All,
    marks: Marks::Ignored,
    is_random: true,
    observes: false,
    samples_min: 1,
    block_samples_min: 1,
    samples_anywhere_min: 1,
    ranking: |_| RankingKind::Other(Box::new(Random)),
};

pub(crate) const VOLATILE: Row = Row { name: "volatile-random", scope: Scope::Volatile, ..ALLKEYS };

pub(crate) const NO_EVICTION: Row =
    Row { name: "noeviction", scope: Scope::None, is_random: false, ..ALLKEYS };

struct Random;

impl Ranking for Random {
    fn rank(&self, _candidate: &Candidate<'_>, random: &mut Prng) -> u64 {
        random.next() >> 1
    }
}
