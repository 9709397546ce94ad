//! RENAMENX: another key for a value, if it is free.

use keyspace::Moved;

use crate::prelude::*;

pub(super) static RENAMENX: Command = Command {
    name: "renamenx",
    summary: "Gives a value and its time to live to another key if that does not exist.",
    since: "1.0.0",
    complexity: "O(1), or O(N) for a string of N bytes that has to be copied",
    arity: Arity::exactly(3),
    flags: Flags::FAST,
    keys: &[
        KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE)),
        KeySpec::at(2, KeyFlags::OW.with(KeyFlags::INSERT)),
    ],
    args: &[Arg::key("key"), Arg::key("newkey").spec(1)],
    history: &[(
        "3.2.0",
        "The command no longer returns an error when source and destination names are the same.",
    )],
    example: "> MSET lake deep hill high\nOK\n\
        > RENAMENX lake hill\n(integer) 0\n\
        > RENAMENX lake river\n(integer) 1\n\
        > GET river\n\"deep\"",
    asks_for_time: true,
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let [source, target] = [args.key(0), args.key(1)];
    let renamed = match source.bytes == target.bytes {
        true if cx.view.entry(source).is_none() => Moved::NoSource,
        // A key is never free for itself.
        true => Moved::TargetTaken,
        false => cx.view.rename_on(cx.move_terms(false), source, target)?,
    };
    match renamed {
        Moved::IsLong => return Err(Need::TimeAlone.into()),
        Moved::NoSource => return Err(CommandError::NO_SUCH_KEY.into()),
        Moved::Done | Moved::TargetTaken => reply.integer(i64::from(renamed == Moved::Done)),
    }
    Ok(())
}
