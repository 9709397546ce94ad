//! ZRANK: the rank of a member.

use collections::Direction;

use super::score_range::reply_rank;

use crate::prelude::*;

pub(super) static ZRANK: Command = Command {
    name: "zrank",
    summary: "Returns the rank of a member of a sorted set.",
    since: "2.0.0",
    complexity: "O(log N)",
    group: Group::SortedSet,
    arity: Arity::at_least(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::part("member"),
        Arg::word("withscore", "WITHSCORE").optional().since("7.2.0"),
    ],
    history: &[("7.2.0", "Added the optional `WITHSCORE` argument.")],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZRANK depths reef\n(integer) 1\n\
        > ZRANK depths reef WITHSCORE\n1) (integer) 1\n2) \"5\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    reply_rank(cx, args, Direction::Up, &ZRANK, reply)
}
