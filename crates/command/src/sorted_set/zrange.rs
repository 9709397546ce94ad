//! ZRANGE: a part of a sorted set.

use super::score_range::{RangeRequest, reply_range};

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
        Arg::block(
            "limit",
            &[Arg::integer("offset").within(-2, 10), Arg::integer("count").within(-2, 10)],
        )
        .token("LIMIT")
        .optional()
        .since("6.2.0"),
        Arg::word("withscores", "WITHSCORES").optional(),
    ],
    history: &[("6.2.0", "Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.")],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZRANGE depths 0 -1 WITHSCORES\n1) \"shore\"\n2) \"1\"\n3) \"reef\"\n4) \"5\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    reply_range(cx, args.key(0), &RangeRequest::of_zrange(args)?, reply)
}
