//! SREM: removes members.

use crate::prelude::*;

pub(super) static SREM: Command = Command {
    name: "srem",
    summary: "Removes members of a set, and returns how many were there.",
    since: "1.0.0",
    complexity: "O(N), N being the members that are removed",
    group: Group::Set,
    arity: Arity::at_least(3),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::part("member").multiple()],
    history: &[("2.4.0", "Accepts multiple `member` arguments.")],
    example: "> SADD fish pike perch\n(integer) 2\n> SREM fish pike eel\n(integer) 1",
    handler: Handler::Write(|cx, args, reply| {
        let removed = cx.view.remove_members(args.key(0), args.from(2))?;
        reply.integer(removed as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
