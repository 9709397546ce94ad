//! PERSIST: an end to the time to live.

use crate::prelude::*;

pub(super) static PERSIST: Command = Command {
    name: "persist",
    summary: "Takes the time to live from a key.",
    since: "2.2.0",
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[Arg::key("key")],
    example: "> SET lake deep EX 60\nOK\n> PERSIST lake\n(integer) 1\n> TTL lake\n(integer) -1",
    handler: Handler::Write(|cx, args, reply| {
        let had_time = cx.view.persist(args.key(0))?;
        reply.integer(i64::from(had_time));
        Ok(())
    }),
    ..Command::DEFAULT
};
