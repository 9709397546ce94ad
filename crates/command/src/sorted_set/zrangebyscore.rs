//! ZRANGEBYSCORE: a part of a sorted set.

use super::score_range::{By, RangeRequest, reply_range};
use collections::Direction;

use crate::prelude::*;

pub(super) static ZRANGEBYSCORE: Command = Command {
    name: "zrangebyscore",
    summary: "Returns the members of a sorted set in a range of scores.",
    since: "1.0.5",
    complexity: "O(log N + M), M being the members that are returned",
    group: Group::SortedSet,
    arity: Arity::at_least(4),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::double("min").among(&["-inf", "+inf", "(1", "0", "5", "(-2.5", "100"]),
        Arg::double("max").among(&["-inf", "+inf", "(1", "0", "5", "(-2.5", "100"]),
        Arg::word("withscores", "WITHSCORES").optional().since("2.0.0"),
        Arg::block(
            "limit",
            &[Arg::integer("offset").within(-2, 10), Arg::integer("count").within(-2, 10)],
        )
        .token("LIMIT")
        .optional(),
    ],
    history: &[("2.0.0", "Added the `WITHSCORES` modifier.")],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `BYSCORE` argument")),
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZRANGEBYSCORE depths 1 (5\n1) \"shore\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let request = RangeRequest::parse(args, By::Score, Some(Direction::Up))?;
    reply_range(cx, args.key(0), &request, reply)
}
