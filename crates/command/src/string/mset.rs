//! MSET: strings for several keys at once.

use keyspace::Expiry;

use crate::prelude::*;

pub(super) static MSET: Command = Command {
    name: "mset",
    summary: "Makes each key hold the string after it, all at once.",
    since: "1.0.1",
    complexity: "O(N), N being the number of keys",
    group: Group::String,
    arity: Arity::at_least(3),
    flags: Flags::DENYOOM,
    keys: &[KeySpec::all_from(1, KeyFlags::OW.with(KeyFlags::UPDATE)).step(2)],
    args: &[Arg::block("data", &[Arg::key("key"), Arg::string("value")]).multiple()],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    example: "> MSET lake deep hill high\nOK\n> GET hill\n\"high\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(&MSET).into());
    }
    for (index, key) in args.keys().iter().enumerate() {
        cx.view.set(key, args.at(2 * index + 2), Expiry::Clear)?;
    }
    reply.ok();
    Ok(())
}
