//! ZCARD: the number of members.

use collections::SortedSet;

use crate::prelude::*;

pub(super) static ZCARD: Command = Command {
    name: "zcard",
    summary: "Returns the number of members of a sorted set.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    args: &[Arg::key("key")],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n> ZCARD depths\n(integer) 2",
    handler: Handler::Read(|cx, args, reply| {
        let set = cx.view.collection::<SortedSet>(args.key(0))?;
        reply.integer(set.map_or(0, |set| set.len()) as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
