//! MSET and MSETNX: strings for several keys at once.

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
    handler: Handler::Write(|cx, args, reply| {
        check_pairs(args, &MSET)?;
        set(cx, args)?;
        reply.ok();
        Ok(())
    }),
    ..Command::DEFAULT
};

pub(super) static MSETNX: Command = Command {
    name: "msetnx",
    summary: "Makes each key hold the string after it if none of the keys exists.",
    keys: &[KeySpec::all_from(1, KeyFlags::OW.with(KeyFlags::INSERT)).step(2)],
    tips: &["request_policy:multi_shard", "response_policy:agg_min"],
    example: "> MSETNX lake deep hill high\n(integer) 1\n\
        > MSETNX hill low river long\n(integer) 0\n\
        > GET river\n(nil)",
    handler: Handler::Write(|cx, args, reply| {
        check_pairs(args, &MSETNX)?;
        let is_free = !args.keys().iter().any(|key| cx.view.contains(key));
        if is_free {
            set(cx, args)?;
        }
        reply.integer(i64::from(is_free));
        Ok(())
    }),
    ..MSET
};

/// Checks that each key of a request of `command` has a value.
fn check_pairs(args: Args<'_>, command: &'static Command) -> Result<(), CommandError> {
    match args.len().is_multiple_of(2) {
        true => Err(CommandError::WrongArity(command)),
        false => Ok(()),
    }
}

fn set(cx: &mut WriteContext<'_>, args: Args<'_>) -> Result<(), Unfinished> {
    for (index, key) in args.keys().iter().enumerate() {
        cx.view.set(key, args.at(2 * index + 2), Expiry::Clear)?;
    }
    Ok(())
}
