//! ZREMRANGEBYLEX, ZREMRANGEBYRANK and ZREMRANGEBYSCORE: remove a part of a sorted set.

use collections::SortedSet;

use super::range::{By, NAMES, Range, SCORES};
use crate::prelude::*;

pub(super) static ZREMRANGEBYLEX: Command = Command {
    name: "zremrangebylex",
    summary: "Removes the members of a sorted set in a range of names.",
    since: "2.8.9",
    complexity: "O(log N + M log N), M being the members that are removed",
    group: Group::SortedSet,
    arity: Arity::exactly(4),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::string("min").among(NAMES), Arg::string("max").among(NAMES)],
    example: "> ZADD names 0 alder 0 oak\n(integer) 2\n\
        > ZREMRANGEBYLEX names [b +\n(integer) 1",
    handler: Handler::Write(|cx, args, reply| {
        cx.view.name_event("zremrangebylex");
        remove(cx, args, reply, By::Lex)
    }),
    ..Command::DEFAULT
};

pub(super) static ZREMRANGEBYRANK: Command = Command {
    name: "zremrangebyrank",
    summary: "Removes the members of a sorted set in a range of ranks.",
    since: "2.0.0",
    flags: Flags::EFFECT,
    args: &[
        Arg::key("key"),
        Arg::integer("start").within(-5, 5),
        Arg::integer("stop").within(-5, 5),
    ],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZREMRANGEBYRANK depths 0 0\n(integer) 1",
    handler: Handler::Write(|cx, args, reply| remove(cx, args, reply, By::Rank)),
    ..ZREMRANGEBYLEX
};

pub(super) static ZREMRANGEBYSCORE: Command = Command {
    name: "zremrangebyscore",
    summary: "Removes the members of a sorted set in a range of scores.",
    since: "1.2.0",
    args: &[Arg::key("key"), Arg::double("min").among(SCORES), Arg::double("max").among(SCORES)],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZREMRANGEBYSCORE depths 2 +inf\n(integer) 1",
    handler: Handler::Write(|cx, args, reply| {
        cx.view.name_event("zremrangebyscore");
        remove(cx, args, reply, By::Score)
    }),
    ..ZREMRANGEBYLEX
};

fn remove(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    by: By,
) -> Result<(), Unfinished> {
    let range = Range::parse(args, by)?;
    let key = args.key(0);
    let set = cx.view.collection::<SortedSet>(key)?;
    let ranks = set.map_or(0..0, |set| range.ranks(set));
    cx.view.remove_ranks(key, ranks.start, ranks.len())?;
    reply.integer(ranks.len() as i64);
    Ok(())
}
