//! ZCOUNT and ZLEXCOUNT: count the members in a range.

use collections::SortedSet;

use super::range::{By, NAMES, Range, SCORES};
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
    args: &[Arg::key("key"), Arg::double("min").among(SCORES), Arg::double("max").among(SCORES)],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZCOUNT depths 2 +inf\n(integer) 1",
    handler: Handler::Read(|cx, args, reply| count(cx, args, reply, By::Score)),
    ..Command::DEFAULT
};

pub(super) static ZLEXCOUNT: Command = Command {
    name: "zlexcount",
    summary: "Returns the number of members of a sorted set in a range of names.",
    since: "2.8.9",
    args: &[Arg::key("key"), Arg::string("min").among(NAMES), Arg::string("max").among(NAMES)],
    example: "> ZADD names 0 alder 0 oak\n(integer) 2\n> ZLEXCOUNT names [b +\n(integer) 1",
    handler: Handler::Read(|cx, args, reply| count(cx, args, reply, By::Lex)),
    ..ZCOUNT
};

fn count(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    by: By,
) -> Result<(), Unfinished> {
    let range = Range::parse(args, by)?;
    let set = cx.view.collection::<SortedSet>(args.key(0))?;
    reply.integer(set.map_or(0, |set| range.ranks(set).len()) as i64);
    Ok(())
}
