//! ZREMRANGEBYLEX: removes a part of a sorted set.

use collections::SortedSet;

use super::score_range::{By, Range};

use crate::prelude::*;

pub(super) static ZREMRANGEBYLEX: Command = Command {
    name: "zremrangebylex",
    summary: "Removes the members of a sorted set in a range of names.",
    since: "2.8.9",
    complexity: "O(log N + M log N), M being the members that are removed",
    group: Group::SortedSet,
    arity: Arity::exactly(4),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[
        Arg::key("key"),
        Arg::string("min").among(&["-", "+", "[a", "(a", "[5", "(x", "["]),
        Arg::string("max").among(&["-", "+", "[a", "(a", "[5", "(x", "["]),
    ],
    example: "> ZADD names 0 alder 0 oak\n(integer) 2\n\
        > ZREMRANGEBYLEX names [b +\n(integer) 1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let range = Range::parse(args, By::Lex)?;
    let key = args.key(0);
    let set = cx.view.collection::<SortedSet>(key)?;
    let ranks = set.map_or(0..0, |set| range.ranks(set));
    cx.view.name_event("zremrangebylex");
    cx.view.remove_ranks(key, ranks.start, ranks.len())?;
    reply.integer(ranks.len() as i64);
    Ok(())
}
