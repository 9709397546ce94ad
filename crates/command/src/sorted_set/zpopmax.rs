//! ZPOPMAX: takes the members with the highest scores.

use collections::Direction;

use super::score_pop::pop;

use crate::prelude::*;

pub(super) static ZPOPMAX: Command = Command {
    name: "zpopmax",
    summary: "Takes the member with the highest score, or several, and returns it.",
    since: "5.0.0",
    complexity: "O(M log N), M being the members that are taken",
    group: Group::SortedSet,
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::integer("count").within(0, 10).optional()],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZPOPMAX depths\n1) \"reef\"\n2) \"5\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    pop(cx, args, reply, Direction::Down)
}
