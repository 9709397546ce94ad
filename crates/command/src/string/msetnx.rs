//! MSETNX: strings for several absent keys.

use keyspace::Expiry;

use crate::prelude::*;

pub(super) static MSETNX: Command = Command {
    name: "msetnx",
    summary: "Makes each key hold the string after it if none of the keys exists.",
    since: "1.0.1",
    complexity: "O(N), N being the number of keys",
    group: Group::String,
    arity: Arity::at_least(3),
    flags: Flags::DENYOOM,
    keys: &[KeySpec::all_from(1, KeyFlags::OW.with(KeyFlags::INSERT)).step(2)],
    args: &[Arg::block("data", &[Arg::key("key"), Arg::string("value")]).multiple()],
    tips: &["request_policy:multi_shard", "response_policy:agg_min"],
    example: "> MSETNX lake deep hill high\n(integer) 1\n\
        > MSETNX hill low river long\n(integer) 0\n\
        > GET river\n(nil)",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(&MSETNX).into());
    }
    let is_free = !args.keys().iter().any(|key| cx.view.contains(key));
    if is_free {
        for (index, key) in args.keys().iter().enumerate() {
            cx.view.set(key, args.at(2 * index + 2), Expiry::Clear)?;
        }
    }
    reply.integer(i64::from(is_free));
    Ok(())
}
