//! ZADD and ZINCRBY: give members of a sorted set scores, on conditions.

use base::Key;
use base::number::parse_f64;
use collections::SortedSet;
use keyspace::WhenAbsent;

use crate::prelude::*;

const NX_AND_XX: CommandError =
    CommandError::Fixed("ERR XX and NX options at the same time are not compatible");
const GT_LT_NX: CommandError =
    CommandError::Fixed("ERR GT, LT, and/or NX options at the same time are not compatible");
const ONE_INCREMENT: CommandError =
    CommandError::Fixed("ERR INCR option supports a single increment-element pair");
const NOT_A_NUMBER: CommandError = CommandError::Fixed("ERR resulting score is not a number (NaN)");

pub(super) static ZADD: Command = Command {
    name: "zadd",
    summary: "Gives members of a sorted set scores, on conditions.",
    since: "1.2.0",
    complexity: "O(log N) for each member",
    group: Group::SortedSet,
    arity: Arity::at_least(4),
    flags: Flags::DENYOOM.with(Flags::FAST).with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")])
            .optional()
            .since("3.0.2"),
        Arg::one_of("comparison", &[Arg::word("gt", "GT"), Arg::word("lt", "LT")])
            .optional()
            .since("6.2.0"),
        Arg::word("change", "CH").optional().since("3.0.2"),
        Arg::word("increment", "INCR").optional().since("3.0.2"),
        Arg::block("data", &[Arg::double("score"), Arg::part("member")]).multiple(),
    ],
    history: &[
        ("2.4.0", "Accepts multiple elements."),
        ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
        ("6.2.0", "Added the `GT` and `LT` options."),
    ],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZADD depths XX CH 7 reef\n(integer) 1\n\
        > ZADD depths INCR 2 shore\n\"3\"",
    handler: Handler::Write(|cx, args, reply| score(cx, args, reply, ScoreOptions::default())),
    ..Command::DEFAULT
};

pub(super) static ZINCRBY: Command = Command {
    name: "zincrby",
    summary: "Adds to the score of a member of a sorted set, which is 0 where absent.",
    since: "1.2.0",
    complexity: "O(log N)",
    group: Group::SortedSet,
    arity: Arity::exactly(4),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::integer("increment").within(-1000, 1000), Arg::part("member")],
    example: "> ZINCRBY depths 2.5 reef\n\"2.5\"\n> ZINCRBY depths 1 reef\n\"3.5\"",
    handler: Handler::Write(|cx, args, reply| {
        // It takes the options of ZADD too, though no request that has one has a pair left.
        score(cx, args, reply, ScoreOptions { increments: true, ..ScoreOptions::default() })
    }),
    ..Command::DEFAULT
};

/// Gives the members of a request scores; `implied` options are set whatever it says.
fn score(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    implied: ScoreOptions,
) -> Result<(), Unfinished> {
    let options = implied.read(args)?;
    let (one, many);
    let pairs: &[(f64, &[u8])] = if args.len() == options.first_pair + 2 {
        one = [pair(args, options.first_pair)?];
        &one
    } else {
        many = options.pairs(args)?;
        &many
    };
    let key = args.key(0);
    let when_absent = match options.only_present {
        true => WhenAbsent::Skip,
        false => WhenAbsent::Create,
    };
    if options.increments {
        check_sum(cx, key, &options, pairs[0])?;
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

/// On which conditions scores are given, and what is told.
#[derive(Clone, Copy, Debug, Default)]
struct ScoreOptions {
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
    /// Reads the options of a request, in any order before the pairs, beside those that its command
    /// implies.
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

    /// Reads the pairs behind the options.
    fn pairs<'a>(&self, args: Args<'a>) -> Result<Vec<(f64, &'a [u8])>, CommandError> {
        let mut pairs = Vec::with_capacity((args.len() - self.first_pair) / 2);
        for at in (self.first_pair..args.len()).step_by(2) {
            pairs.push(pair(args, at)?);
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

/// Reads a score and the member behind it.
#[inline]
fn pair<'a>(args: Args<'a>, at: usize) -> Result<(f64, &'a [u8]), CommandError> {
    let score = parse_f64(args.at(at)).ok_or(CommandError::NotFloat)?;
    Ok((score, args.at(at + 1)))
}

/// Refuses a sum that is no number, where the conditions have it stored.
fn check_sum(
    cx: &WriteContext<'_>,
    key: &Key<'_>,
    options: &ScoreOptions,
    (increment, member): (f64, &[u8]),
) -> Result<(), Unfinished> {
    if increment.is_finite() {
        return Ok(());
    }
    let view = &cx.view;
    let set = view.collection::<SortedSet>(key)?;
    let old = set.and_then(|set| set.score(member, view.rules(key)));
    match options.decide(old, increment).is_some_and(f64::is_nan) {
        true => Err(NOT_A_NUMBER.into()),
        false => Ok(()),
    }
}
