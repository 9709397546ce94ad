//! GEOADD: gives members of a sorted set places.

use keyspace::WhenAbsent;

use super::search::{LATITUDE, LONGITUDE, place_at};
use crate::prelude::*;

pub(super) static GEOADD: Command = Command {
    name: "geoadd",
    summary: "Gives members of a sorted set places on earth, on conditions.",
    since: "3.2.0",
    complexity: "O(log N) for each member",
    group: Group::Geo,
    arity: Arity::at_least(5),
    flags: Flags::DENYOOM,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")])
            .optional()
            .since("6.2.0"),
        Arg::word("change", "CH").optional().since("6.2.0"),
        Arg::block("data", &[LONGITUDE, LATITUDE, Arg::part("member")]).multiple(),
    ],
    history: &[("6.2.0", "Added the `CH`, `NX` and `XX` options.")],
    example: "> GEOADD wrecks -49.95 41.73 titanic 5.32 60.39 statsraad\n(integer) 2\n\
        > GEOADD wrecks NX CH 0 0 titanic\n(integer) 0\n\
        > ZSCORE wrecks titanic\n\"1828795692340531\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let options = Options::parse(args)?;
    let places = options.first_place..args.len();
    let (one, many);
    let pairs: &[(f64, &[u8])] = if places.len() == 3 {
        one = [scored(args, options.first_place)?];
        &one
    } else {
        let all = places.step_by(3).map(|at| scored(args, at));
        many = all.collect::<Result<Vec<_>, _>>()?;
        &many
    };
    let when_absent = match options.only_present {
        true => WhenAbsent::Skip,
        false => WhenAbsent::Create,
    };
    let result =
        cx.view.score_members(args.key(0), pairs, when_absent, |old, given| match old {
            None if options.only_present => None,
            Some(_) if options.only_new => None,
            _ => Some(given),
        })?;
    let updated = if options.counts_changes { result.updated } else { 0 };
    reply.integer((result.added + updated) as i64);
    Ok(())
}

/// On which conditions places are given, and what is told.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    only_new: bool,
    only_present: bool,
    counts_changes: bool,
    /// Where the places begin.
    first_place: usize,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, CommandError> {
        let mut options = Options { first_place: 2, ..Options::default() };
        while options.first_place < args.len() {
            let at = options.first_place;
            let flag = match () {
                () if args.is(at, "NX") => &mut options.only_new,
                () if args.is(at, "XX") => &mut options.only_present,
                () if args.is(at, "CH") => &mut options.counts_changes,
                () => break,
            };
            *flag = true;
            options.first_place += 1;
        }
        let words = args.len() - options.first_place;
        let is_contradiction = options.only_new && options.only_present;
        match words == 0 || !words.is_multiple_of(3) || is_contradiction {
            true => Err(CommandError::Syntax),
            false => Ok(options),
        }
    }
}

/// Reads a place and the member behind it.
#[inline]
fn scored<'a>(args: Args<'a>, at: usize) -> Result<(f64, &'a [u8]), CommandError> {
    Ok((place_at(args, at)?.score(), args.at(at + 2)))
}
