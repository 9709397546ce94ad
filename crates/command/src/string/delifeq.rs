//! DELIFEQ: removes a key that holds the expected string.

use crate::prelude::*;

pub(super) static DELIFEQ: Command = Command {
    name: "delifeq",
    summary: "Removes a key if it holds exactly this string, and returns whether it did.",
    since: "7.2.4",
    complexity: "O(N), N being the bytes of the string",
    group: Group::String,
    arity: Arity::exactly(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RM.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::string("value")],
    note: "A command of Valkey 9.0, which Redis does not have.",
    example: "> SET lake mine\nOK\n\
        > DELIFEQ lake yours\n(integer) 0\n\
        > DELIFEQ lake mine\n(integer) 1\n\
        > GET lake\n(nil)",
    is_timed_alone: true,
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    cx.own(args.keys())?;
    let is_expected = cx.view.string(key)?.is_some_and(|value| value == args.at(2));
    let is_removed = is_expected && cx.view.remove(key);
    reply.integer(i64::from(is_removed));
    Ok(())
}
