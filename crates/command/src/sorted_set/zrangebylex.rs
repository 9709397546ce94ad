//! ZRANGEBYLEX and ZREVRANGEBYLEX: the part of a sorted set in a range of names.

use collections::Direction;

use super::range::{By, LIMIT, NAMES, reply_range};
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
        Arg::string("min").among(NAMES),
        Arg::string("max").among(NAMES),
        LIMIT,
    ],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `BYLEX` argument")),
    example: "> ZADD names 0 alder 0 oak\n(integer) 2\n\
        > ZRANGEBYLEX names [a (m\n1) \"alder\"",
    handler: Handler::Read(|cx, args, reply| {
        reply_range(cx, args, reply, Some(By::Lex), Some(Direction::Up))
    }),
    ..Command::DEFAULT
};

pub(super) static ZREVRANGEBYLEX: Command = Command {
    name: "zrevrangebylex",
    summary: "Returns the members of a sorted set in a range of names from the highest.",
    args: &[
        Arg::key("key"),
        Arg::string("max").among(NAMES),
        Arg::string("min").among(NAMES),
        LIMIT,
    ],
    deprecated: Some(("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments")),
    example: "> ZADD names 0 alder 0 oak\n(integer) 2\n\
        > ZREVRANGEBYLEX names (m [a\n1) \"alder\"",
    handler: Handler::Read(|cx, args, reply| {
        reply_range(cx, args, reply, Some(By::Lex), Some(Direction::Down))
    }),
    ..ZRANGEBYLEX
};
