//! ZRANGEBYSCORE and ZREVRANGEBYSCORE: the part of a sorted set in a range of scores.

use collections::Direction;

use super::range::{By, LIMIT, SCORES, reply_range};
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
        Arg::double("min").among(SCORES),
        Arg::double("max").among(SCORES),
        Arg::word("withscores", "WITHSCORES").optional().since("2.0.0"),
        LIMIT,
    ],
    history: &[("2.0.0", "Added the `WITHSCORES` modifier.")],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `BYSCORE` argument")),
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZRANGEBYSCORE depths 1 (5\n1) \"shore\"",
    handler: Handler::Read(|cx, args, reply| {
        reply_range(cx, args, reply, Some(By::Score), Some(Direction::Up))
    }),
    ..Command::DEFAULT
};

pub(super) static ZREVRANGEBYSCORE: Command = Command {
    name: "zrevrangebyscore",
    summary: "Returns the members of a sorted set in a range of scores from the highest.",
    since: "2.2.0",
    args: &[
        Arg::key("key"),
        Arg::double("max").among(SCORES),
        Arg::double("min").among(SCORES),
        Arg::word("withscores", "WITHSCORES").optional(),
        LIMIT,
    ],
    history: &[("2.1.6", "`min` and `max` can be exclusive.")],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments")),
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZREVRANGEBYSCORE depths (5 1\n1) \"shore\"",
    handler: Handler::Read(|cx, args, reply| {
        reply_range(cx, args, reply, Some(By::Score), Some(Direction::Down))
    }),
    ..ZRANGEBYSCORE
};
