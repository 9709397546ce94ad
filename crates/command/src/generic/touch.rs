//! TOUCH: marks keys as used.

use crate::prelude::*;

pub(super) static TOUCH: Command = Command {
    name: "touch",
    summary: "Marks keys as used just now and returns how many of them exist.",
    since: "3.2.1",
    complexity: "O(N), N being the number of keys",
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::all_from(1, KeyFlags::RO)],
    args: &[Arg::key("key").multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    example: "> SET lake deep\nOK\n> TOUCH lake river lake\n(integer) 2",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let view = cx.view.with_touch();
    let found = args.keys().iter().filter(|key| view.entry(key).is_some()).count();
    reply.integer(found as i64);
    Ok(())
}
