//! ZRANGE and ZREVRANGE: a part of a sorted set.

use collections::Direction;

use super::range::{By, LIMIT, reply_range};
use crate::prelude::*;

pub(super) static ZRANGE: Command = Command {
    name: "zrange",
    summary: "Returns the members of a sorted set in a range of ranks, scores or names.",
    since: "1.2.0",
    complexity: "O(log N + M), M being the members that are returned",
    group: Group::SortedSet,
    arity: Arity::at_least(4),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::string("start").among(&["0", "1", "-1", "-3", "5"]),
        Arg::string("stop").among(&["0", "2", "-1", "10"]),
        Arg::one_of("sortby", &[Arg::word("byscore", "BYSCORE"), Arg::word("bylex", "BYLEX")])
            .optional()
            .since("6.2.0"),
        Arg::word("rev", "REV").optional().since("6.2.0"),
        LIMIT.since("6.2.0"),
        Arg::word("withscores", "WITHSCORES").optional(),
    ],
    history: &[("6.2.0", "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.")],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZRANGE depths 0 -1 WITHSCORES\n1) \"shore\"\n2) \"1\"\n3) \"reef\"\n4) \"5\"",
    handler: Handler::Read(|cx, args, reply| reply_range(cx, args, reply, None, None)),
    ..Command::DEFAULT
};

pub(super) static ZREVRANGE: Command = Command {
    name: "zrevrange",
    summary: "Returns the members of a sorted set in a range of ranks from the highest.",
    args: &[
        Arg::key("key"),
        Arg::integer("start").within(-5, 5),
        Arg::integer("stop").within(-5, 5),
        Arg::word("withscores", "WITHSCORES").optional(),
    ],
    history: &[],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` argument")),
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZREVRANGE depths 0 0\n1) \"reef\"",
    handler: Handler::Read(|cx, args, reply| {
        reply_range(cx, args, reply, Some(By::Rank), Some(Direction::Down))
    }),
    ..ZRANGE
};
