//! ZINCRBY: adds to the score of a member.

use super::score_options::{ScoreOptions, score};

use crate::prelude::*;

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
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let options = ScoreOptions::of_zincrby(args)?;
    let pairs = options.pairs(args)?;
    score(cx, args.key(0), &options, &pairs, reply)
}
