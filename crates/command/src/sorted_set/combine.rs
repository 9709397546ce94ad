//! What the unions, intersections and differences of sorted sets have in common: how their requests
//! are read, and what they ask for.

use base::Key;
use base::number::parse_f64;
use collections::{Aggregate, RankedMembers, Rules, ScoreSource, Weighted};
use keyspace::{ReadView, WrongType};

use crate::prelude::*;

const NOT_A_WEIGHT: CommandError = CommandError::Fixed("ERR weight value is not a float");

/// Scores are multiplied by these.
pub(super) const WEIGHTS: Arg = Arg::integer("weight")
    .token("WEIGHTS")
    .among(&["1", "2", "0", "-1", "0.5", "inf", "-3e2"])
    .as_often_as_counted()
    .optional();

/// What the scores of one member come to.
pub(super) const AGGREGATE: Arg = Arg::one_of(
    "aggregate",
    &[Arg::word("sum", "SUM"), Arg::word("min", "MIN"), Arg::word("max", "MAX")],
)
.token("AGGREGATE")
.optional();

/// The scores are part of the reply.
pub(super) const WITH_SCORES: Arg = Arg::word("withscores", "WITHSCORES").optional();

/// What is made of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Union,
    Intersection,
    Difference,
}

/// Returns the position behind the keys that a request of `command` counts at `count_at`.
pub(super) fn options_at(
    args: Args<'_>,
    count_at: usize,
    command: &Command,
) -> Result<usize, CommandError> {
    let count = args.integer(count_at)?;
    if count < 1 {
        let name = command.name.as_bytes();
        let parts = [&b"ERR at least 1 input key is needed for '"[..], name, b"' command"];
        return Err(CommandError::text_of(&parts));
    }
    let at = usize::try_from(count).ok().and_then(|count| count.checked_add(count_at + 1));
    at.filter(|&at| at <= args.len()).ok_or(CommandError::Syntax)
}

/// Returns what is at `keys`.
pub(super) fn sources<'v>(
    view: &ReadView<'v>,
    keys: &[Key<'_>],
) -> Result<Vec<Option<ScoreSource<'v>>>, WrongType> {
    keys.iter().map(|key| view.scores(key)).collect()
}

/// The options of a request.
pub(super) struct Options {
    operation: Operation,
    /// One for each source, or none where all are 1.
    weights: Vec<f64>,
    aggregate: Aggregate,
    pub with_scores: bool,
}

impl Options {
    /// Reads the options from argument `at` on, of a request for `operation` on `source_count`
    /// sources, which may ask for scores or not.
    pub fn parse(
        args: Args<'_>,
        mut at: usize,
        operation: Operation,
        source_count: usize,
        may_ask_scores: bool,
    ) -> Result<Options, CommandError> {
        let (mut weights, mut aggregate) = (Vec::new(), Aggregate::Sum);
        let mut with_scores = false;
        let has_weights = operation != Operation::Difference;
        while at < args.len() {
            let left = args.len() - at - 1;
            if has_weights && left >= source_count && args.is(at, "WEIGHTS") {
                let weight = |index| parse_f64(args.at(index)).ok_or(NOT_A_WEIGHT);
                weights = (at + 1..=at + source_count).map(weight).collect::<Result<_, _>>()?;
                at += source_count;
            } else if has_weights && left >= 1 && args.is(at, "AGGREGATE") {
                aggregate = aggregate_at(args, at + 1)?;
                at += 1;
            } else if may_ask_scores && args.is(at, "WITHSCORES") {
                with_scores = true;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        Ok(Options { operation, weights, aggregate, with_scores })
    }

    /// Returns what the members of `sources` come to.
    pub fn combine(&self, sources: &[Option<ScoreSource<'_>>], rules: &Rules) -> RankedMembers {
        let weights = self.weights.iter().copied().chain(std::iter::repeat(1.0));
        let weighted =
            sources.iter().zip(weights).map(|(&source, weight)| Weighted { source, weight });
        match self.operation {
            Operation::Difference => RankedMembers::difference(sources, rules),
            Operation::Union => {
                RankedMembers::union(&weighted.collect::<Vec<_>>(), self.aggregate, rules)
            }
            Operation::Intersection => {
                RankedMembers::intersection(&weighted.collect::<Vec<_>>(), self.aggregate, rules)
            }
        }
    }

    /// Returns a bound of the memory that [`Options::combine`] takes, for the sources at `keys`.
    pub fn combined_bytes_max(&self, sources: &[Option<ScoreSource<'_>>], keys: &[Key<'_>]) -> u64 {
        let bytes_max =
            |source: &Option<ScoreSource<'_>>| source.map_or(0, |source| source.ranked_bytes_max());
        match self.operation {
            Operation::Difference => bytes_max(&sources[0]),
            Operation::Intersection => {
                let length = |source: &&Option<ScoreSource<'_>>| source.map_or(0, |it| it.len());
                sources.iter().min_by_key(length).map_or(0, bytes_max)
            }
            // A key that is named twice adds nothing.
            Operation::Union => {
                let mut named: Vec<_> = keys.iter().map(|key| key.bytes).zip(sources).collect();
                named.sort_unstable_by_key(|(name, _)| *name);
                named.dedup_by_key(|(name, _)| *name);
                named.into_iter().map(|(_, source)| bytes_max(source)).sum()
            }
        }
    }
}

fn aggregate_at(args: Args<'_>, at: usize) -> Result<Aggregate, CommandError> {
    match () {
        () if args.is(at, "SUM") => Ok(Aggregate::Sum),
        () if args.is(at, "MIN") => Ok(Aggregate::Min),
        () if args.is(at, "MAX") => Ok(Aggregate::Max),
        () => Err(CommandError::Syntax),
    }
}
