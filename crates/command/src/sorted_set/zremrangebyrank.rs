//! ZREMRANGEBYRANK: removes a part of a sorted set.

use collections::SortedSet;

use super::score_range::{By, Range};

use super::zremrangebylex::ZREMRANGEBYLEX;
use crate::prelude::*;

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
    handler: Handler::Write(run),
    ..ZREMRANGEBYLEX
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let range = Range::parse(args, By::Rank)?;
    let key = args.key(0);
    let set = cx.view.collection::<SortedSet>(key)?;
    let ranks = set.map_or(0..0, |set| range.ranks(set));
    cx.view.remove_ranks(key, ranks.start, ranks.len())?;
    reply.integer(ranks.len() as i64);
    Ok(())
}
