//! ZRANGEBYLEX: a part of a sorted set.

use super::score_range::{By, RangeRequest, reply_range};
use collections::Direction;

use crate::prelude::*;

pub(super) static ZRANGEBYLEX: Command = Command {
    name: "zrangebylex",
    summary: "Returns the members of a sorted set in a range of names.",
    since: "2.8.9",
    complexity: "O(log N + M), M being the members that are returned",
    group: Group::SortedSet,
    arity: Arity::at_least(4),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::string("min").among(&["-", "+", "[a", "(a", "[5", "(x", "["]),
        Arg::string("max").among(&["-", "+", "[a", "(a", "[5", "(x", "["]),
        Arg::block(
            "limit",
            &[Arg::integer("offset").within(-2, 10), Arg::integer("count").within(-2, 10)],
        )
        .token("LIMIT")
        .optional(),
    ],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `BYLEX` argument")),
    example: "> ZADD names 0 alder 0 oak\n(integer) 2\n\
        > ZRANGEBYLEX names [a (m\n1) \"alder\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let request = RangeRequest::parse(args, By::Lex, Some(Direction::Up))?;
    reply_range(cx, args.key(0), &request, reply)
}
