//! UNLINK: removes keys, as DEL does.

use crate::prelude::*;

pub(super) static UNLINK: Command = Command {
    name: "unlink",
    summary: "Removes keys and returns how many there were, as DEL does.",
    since: "4.0.0",
    complexity: "O(N), N being the number of keys",
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::all_from(1, KeyFlags::RM.with(KeyFlags::DELETE))],
    args: &[Arg::key("key").multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    example: "> MSET lake deep hill high\nOK\n> UNLINK lake hill river\n(integer) 2",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let removed = args.keys().iter().filter(|key| cx.view.remove(key)).count();
    reply.integer(removed as i64);
    Ok(())
}
