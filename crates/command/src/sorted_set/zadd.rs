//! ZADD: gives members of a sorted set scores.

use super::score_options::{ScoreOptions, score};

use crate::prelude::*;

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
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let options = ScoreOptions::of_zadd(args)?;
    let pairs = options.pairs(args)?;
    score(cx, args.key(0), &options, &pairs, reply)
}
