//! ZREMRANGEBYSCORE: removes a part of a sorted set.

use collections::SortedSet;

use super::score_range::{By, Range};

use super::zremrangebylex::ZREMRANGEBYLEX;
use crate::prelude::*;

pub(super) static ZREMRANGEBYSCORE: Command = Command {
    name: "zremrangebyscore",
    summary: "Removes the members of a sorted set in a range of scores.",
    since: "1.2.0",
    args: &[
        Arg::key("key"),
        Arg::double("min").among(&["-inf", "+inf", "(1", "0", "5", "(-2.5", "100"]),
        Arg::double("max").among(&["-inf", "+inf", "(1", "0", "5", "(-2.5", "100"]),
    ],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZREMRANGEBYSCORE depths 2 +inf\n(integer) 1",
    handler: Handler::Write(run),
    ..ZREMRANGEBYLEX
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let range = Range::parse(args, By::Score)?;
    let key = args.key(0);
    let set = cx.view.collection::<SortedSet>(key)?;
    let ranks = set.map_or(0..0, |set| range.ranks(set));
    cx.view.name_event("zremrangebyscore");
    cx.view.remove_ranks(key, ranks.start, ranks.len())?;
    reply.integer(ranks.len() as i64);
    Ok(())
}
