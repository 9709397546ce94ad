//! ZLEXCOUNT: counts members in a range.

use collections::SortedSet;

use super::score_range::{By, Range};

use super::zcount::ZCOUNT;
use crate::prelude::*;

pub(super) static ZLEXCOUNT: Command = Command {
    name: "zlexcount",
    summary: "Returns the number of members of a sorted set in a range of names.",
    since: "2.8.9",
    args: &[
        Arg::key("key"),
        Arg::string("min").among(&["-", "+", "[a", "(a", "[5", "(x", "["]),
        Arg::string("max").among(&["-", "+", "[a", "(a", "[5", "(x", "["]),
    ],
    example: "> ZADD names 0 alder 0 oak\n(integer) 2\n> ZLEXCOUNT names [b +\n(integer) 1",
    handler: Handler::Read(run),
    ..ZCOUNT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let range = Range::parse(args, By::Lex)?;
    let set = cx.view.collection::<SortedSet>(args.key(0))?;
    reply.integer(set.map_or(0, |set| range.ranks(set).len()) as i64);
    Ok(())
}
