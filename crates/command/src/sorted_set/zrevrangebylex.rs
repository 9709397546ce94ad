//! ZREVRANGEBYLEX: a part of a sorted set.

use super::score_range::{By, RangeRequest, reply_range};
use collections::Direction;

use super::zrangebylex::ZRANGEBYLEX;
use crate::prelude::*;

pub(super) static ZREVRANGEBYLEX: Command = Command {
    name: "zrevrangebylex",
    summary: "Returns the members of a sorted set in a range of names from the highest.",
    args: &[
        Arg::key("key"),
        Arg::string("max").among(&["-", "+", "[a", "(a", "[5", "(x", "["]),
        Arg::string("min").among(&["-", "+", "[a", "(a", "[5", "(x", "["]),
        Arg::block(
            "limit",
            &[Arg::integer("offset").within(-2, 10), Arg::integer("count").within(-2, 10)],
        )
        .token("LIMIT")
        .optional(),
    ],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments")),
    example: "> ZADD names 0 alder 0 oak\n(integer) 2\n\
        > ZREVRANGEBYLEX names (m [a\n1) \"alder\"",
    handler: Handler::Read(run),
    ..ZRANGEBYLEX
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let request = RangeRequest::parse(args, By::Lex, Some(Direction::Down))?;
    reply_range(cx, args.key(0), &request, reply)
}
