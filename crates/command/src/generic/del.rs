//! DEL and UNLINK: remove keys.

use crate::prelude::*;

pub(super) static DEL: Command = Command {
    name: "del",
    summary: "Removes keys and returns how many there were.",
    since: "1.0.0",
    complexity: "O(N), N being the number of keys",
    arity: Arity::at_least(2),
    keys: &[KeySpec::all_from(1, KeyFlags::RM.with(KeyFlags::DELETE))],
    args: &[Arg::key("key").multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    example: "> MSET lake deep hill high\nOK\n> DEL lake hill river\n(integer) 2",
    handler: Handler::Write(|cx, args, reply| {
        let removed = args.keys().iter().filter(|key| cx.view.remove(key)).count();
        reply.integer(removed as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};

pub(super) static UNLINK: Command = Command {
    name: "unlink",
    summary: "Removes keys and returns how many there were, as DEL does.",
    since: "4.0.0",
    flags: Flags::FAST,
    example: "> MSET lake deep hill high\nOK\n> UNLINK lake hill river\n(integer) 2",
    ..DEL
};
