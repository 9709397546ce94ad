//! ZREM: removes members.

use crate::prelude::*;

pub(super) static ZREM: Command = Command {
    name: "zrem",
    summary: "Removes members of a sorted set, and returns how many were there.",
    since: "1.2.0",
    complexity: "O(log N) for each member",
    group: Group::SortedSet,
    arity: Arity::at_least(3),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::part("member").multiple()],
    history: &[("2.4.0", "Accepts multiple elements.")],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZREM depths reef bank\n(integer) 1",
    handler: Handler::Write(|cx, args, reply| {
        let removed = cx.view.remove_scored(args.key(0), args.from(2))?;
        reply.integer(removed as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
