//! The key whose time to live ends first is evicted first.

use base::prng::Prng;

use crate::eviction::policy::{Candidate, Marks, Ranking, RankingKind, Row, Scope};

pub(crate) const VOLATILE: Row = Row {
    name: "volatile-ttl",
    scope: Scope::Volatile,
    marks: Marks::Ignored,
    is_random: false,
    observes: false,
    samples_min: 1,
    block_samples_min: 1,
    samples_anywhere_min: 1,
    ranking: |_| RankingKind::Other(Box::new(Ttl)),
};

struct Ttl;

impl Ranking for Ttl {
    fn rank(&self, candidate: &Candidate<'_>, _random: &mut Prng) -> u64 {
        let at = candidate.object.expiry().map_or(i64::MAX, |at| at.0);
        i64::MAX.abs_diff(at).min(u64::MAX - 1)
    }
}
