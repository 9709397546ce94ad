//! What ZADD and ZINCRBY share: the conditions on which members get scores.

use base::Key;
use base::number::parse_f64;
use collections::SortedSet;
use keyspace::WhenAbsent;
use resp::Reply;

use crate::handler::context::WriteContext;
use crate::handler::error::CommandError;
use crate::handler::outcome::Unfinished;
use crate::handler::request::Args;

const NX_AND_XX: CommandError =
    CommandError::Fixed("ERR XX and NX options at the same time are not compatible");
const GT_LT_NX: CommandError =
    CommandError::Fixed("ERR GT, LT, and/or NX options at the same time are not compatible");
const ONE_INCREMENT: CommandError =
    CommandError::Fixed("ERR INCR option supports a single increment-element pair");
const NOT_A_NUMBER: CommandError = CommandError::Fixed("ERR resulting score is not a number (NaN)");

/// On which conditions scores are given, and what is told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScoreOptions {
    only_new: bool,
    only_present: bool,
    only_greater: bool,
    only_less: bool,
    counts_changes: bool,
    increments: bool,
    /// Where the pairs begin.
    first_pair: usize,
}

impl ScoreOptions {
    /// Reads the options of ZINCRBY, which takes those of ZADD too, though no request that has one
    /// has a pair left.
    pub fn of_zincrby(args: Args<'_>) -> Result<ScoreOptions, CommandError> {
        ScoreOptions { increments: true, ..ScoreOptions::default() }.read(args)
    }

    /// Reads the options of ZADD, in any order before the pairs.
    pub fn of_zadd(args: Args<'_>) -> Result<ScoreOptions, CommandError> {
        ScoreOptions::default().read(args)
    }

    fn read(self, args: Args<'_>) -> Result<ScoreOptions, CommandError> {
        let mut options = ScoreOptions { first_pair: 2, ..self };
        while options.first_pair < args.len() {
            let at = options.first_pair;
            let flag = match () {
                () if args.is(at, "NX") => &mut options.only_new,
                () if args.is(at, "XX") => &mut options.only_present,
                () if args.is(at, "CH") => &mut options.counts_changes,
                () if args.is(at, "INCR") => &mut options.increments,
                () if args.is(at, "GT") => &mut options.only_greater,
                () if args.is(at, "LT") => &mut options.only_less,
                () => break,
            };
            *flag = true;
            options.first_pair += 1;
        }
        let words = args.len() - options.first_pair;
        if words == 0 || !words.is_multiple_of(2) {
            return Err(CommandError::Syntax);
        }
        if options.only_new && options.only_present {
            return Err(NX_AND_XX);
        }
        let exclusive = [options.only_greater, options.only_less, options.only_new];
        if exclusive.into_iter().filter(|&is_set| is_set).count() > 1 {
            return Err(GT_LT_NX);
        }
        if options.increments && words > 2 {
            return Err(ONE_INCREMENT);
        }
        Ok(options)
    }

    /// Reads the pairs of ZADD.
    pub fn pairs<'a>(&self, args: Args<'a>) -> Result<Vec<(f64, &'a [u8])>, CommandError> {
        let mut pairs = Vec::with_capacity((args.len() - self.first_pair) / 2);
        for at in (self.first_pair..args.len()).step_by(2) {
            let score = parse_f64(args.at(at)).ok_or(CommandError::NotFloat)?;
            pairs.push((score, args.at(at + 1)));
        }
        Ok(pairs)
    }

    /// Returns the score of a member that has `old` and comes with `given`; not a number where the
    /// sum is none.
    fn decide(&self, old: Option<f64>, given: f64) -> Option<f64> {
        let score = match old {
            None if self.only_present => return None,
            None => return Some(given),
            Some(_) if self.only_new => return None,
            Some(old) if self.increments => old + given,
            Some(_) => given,
        };
        let old = old.expect("just looked at");
        let is_wanted = !(self.only_greater && score <= old || self.only_less && score >= old);
        (is_wanted || score.is_nan()).then_some(score)
    }
}

/// Gives the members of `pairs` in the sorted set at `key` scores and replies.
pub(crate) fn score(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    options: &ScoreOptions,
    pairs: &[(f64, &[u8])],
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let when_absent = match options.only_present {
        true => WhenAbsent::Skip,
        false => WhenAbsent::Create,
    };
    if options.increments {
        check_sum(cx, key, pairs[0])?;
        cx.view.name_event("zincr");
    }
    let mut result = None;
    let scored = cx.view.score_members(key, pairs, when_absent, |old, given| {
        result = options.decide(old, given);
        result
    })?;
    match (options.increments, result) {
        (true, Some(score)) => reply.double(score),
        (true, None) => reply.null(),
        (false, _) if options.counts_changes => {
            reply.integer((scored.added + scored.updated) as i64);
        }
        (false, _) => reply.integer(scored.added as i64),
    }
    Ok(())
}

/// Refuses a sum that is no number.
fn check_sum(
    cx: &WriteContext<'_>,
    key: &Key<'_>,
    (increment, member): (f64, &[u8]),
) -> Result<(), Unfinished> {
    if increment.is_finite() {
        return Ok(());
    }
    let view = &cx.view;
    let set = view.collection::<SortedSet>(key)?;
    let old = set.and_then(|set| set.score(member, view.rules(key)));
    match old.is_some_and(|old| (old + increment).is_nan()) {
        true => Err(NOT_A_NUMBER.into()),
        false => Ok(()),
    }
}
