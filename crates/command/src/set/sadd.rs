//! SADD: adds members to a set.

use crate::prelude::*;

pub(super) static SADD: Command = Command {
    name: "sadd",
    summary: "Adds members to a set, and returns how many of them are new.",
    since: "1.0.0",
    complexity: "O(N), N being the members that are added",
    group: Group::Set,
    arity: Arity::at_least(3),
    flags: Flags::DENYOOM.with(Flags::FAST).with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::INSERT))],
    args: &[Arg::key("key"), Arg::part("member").multiple()],
    history: &[("2.4.0", "Accepts multiple `member` arguments.")],
    example: "> SADD fish pike perch pike\n(integer) 2",
    handler: Handler::Write(|cx, args, reply| {
        let added = cx.view.add_members(args.key(0), args.from(2))?;
        reply.integer(added as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
