//! ZREVRANGEBYSCORE: a part of a sorted set.

use super::score_range::{By, RangeRequest, reply_range};
use collections::Direction;

use super::zrangebyscore::ZRANGEBYSCORE;
use crate::prelude::*;

pub(super) static ZREVRANGEBYSCORE: Command = Command {
    name: "zrevrangebyscore",
    summary: "Returns the members of a sorted set in a range of scores from the highest.",
    since: "2.2.0",
    args: &[
        Arg::key("key"),
        Arg::double("max").among(&["-inf", "+inf", "(1", "0", "5", "(-2.5", "100"]),
        Arg::double("min").among(&["-inf", "+inf", "(1", "0", "5", "(-2.5", "100"]),
        Arg::word("withscores", "WITHSCORES").optional(),
        Arg::block(
            "limit",
            &[Arg::integer("offset").within(-2, 10), Arg::integer("count").within(-2, 10)],
        )
        .token("LIMIT")
        .optional(),
    ],
    history: &[("2.1.6", "`min` and `max` can be exclusive.")],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments")),
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZREVRANGEBYSCORE depths (5 1\n1) \"shore\"",
    handler: Handler::Read(run),
    ..ZRANGEBYSCORE
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let request = RangeRequest::parse(args, By::Score, Some(Direction::Down))?;
    reply_range(cx, args.key(0), &request, reply)
}
