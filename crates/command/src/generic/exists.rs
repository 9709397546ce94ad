//! EXISTS: whether keys are there.

use crate::prelude::*;

pub(super) static EXISTS: Command = Command {
    name: "exists",
    summary: "Returns how many of the keys exist; one that is named twice counts twice.",
    since: "1.0.0",
    complexity: "O(N), N being the number of keys",
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::all_from(1, KeyFlags::RO)],
    args: &[Arg::key("key").multiple()],
    history: &[("3.0.3", "Accepts multiple `key` arguments.")],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    example: "> SET lake deep\nOK\n> EXISTS lake river lake\n(integer) 2",
    handler: Handler::Read(|cx, args, reply| {
        let found = args.keys().iter().filter(|key| cx.view.peek(key).is_some()).count();
        reply.integer(found as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
