//! ZCOUNT: counts members in a range.

use collections::SortedSet;

use super::score_range::{By, Range};

use crate::prelude::*;

pub(super) static ZCOUNT: Command = Command {
    name: "zcount",
    summary: "Returns the number of members of a sorted set in a range of scores.",
    since: "2.0.0",
    complexity: "O(log N)",
    group: Group::SortedSet,
    arity: Arity::exactly(4),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::double("min").among(&["-inf", "+inf", "(1", "0", "5", "(-2.5", "100"]),
        Arg::double("max").among(&["-inf", "+inf", "(1", "0", "5", "(-2.5", "100"]),
    ],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZCOUNT depths 2 +inf\n(integer) 1",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let range = Range::parse(args, By::Score)?;
    let set = cx.view.collection::<SortedSet>(args.key(0))?;
    reply.integer(set.map_or(0, |set| range.ranks(set).len()) as i64);
    Ok(())
}
