//! ZREVRANGE: a part of a sorted set.

use super::score_range::{By, RangeRequest, reply_range};
use collections::Direction;

use crate::prelude::*;

pub(super) static ZREVRANGE: Command = Command {
    name: "zrevrange",
    summary: "Returns the members of a sorted set in a range of ranks from the highest.",
    since: "1.2.0",
    complexity: "O(log N + M), M being the members that are returned",
    group: Group::SortedSet,
    arity: Arity::at_least(4),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::integer("start").within(-5, 5),
        Arg::integer("stop").within(-5, 5),
        Arg::word("withscores", "WITHSCORES").optional(),
    ],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` argument")),
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZREVRANGE depths 0 0\n1) \"reef\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let request = RangeRequest::parse(args, By::Rank, Some(Direction::Down))?;
    reply_range(cx, args.key(0), &request, reply)
}
