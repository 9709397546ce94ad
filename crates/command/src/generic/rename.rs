//! RENAME: another key for a value.

use keyspace::Moved;

use crate::prelude::*;

pub(super) static RENAME: Command = Command {
    name: "rename",
    summary: "Gives a value and its time to live to another key, whatever that held.",
    since: "1.0.0",
    complexity: "O(1), or O(N) for a string of N bytes that has to be copied",
    arity: Arity::exactly(3),
    keys: &[
        KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE)),
        KeySpec::at(2, KeyFlags::OW.with(KeyFlags::UPDATE)),
    ],
    args: &[Arg::key("key"), Arg::key("newkey").spec(1)],
    example: "> SET lake deep\nOK\n\
        > RENAME lake hill\nOK\n\
        > MGET lake hill\n1) (nil)\n2) \"deep\"\n\
        > RENAME lake hill\n(error) ERR no such key",
    asks_for_time: true,
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let [source, target] = [args.key(0), args.key(1)];
    let renamed = match source.bytes == target.bytes {
        true if cx.view.entry(source).is_none() => Moved::NoSource,
        true => Moved::Done,
        false => cx.view.rename_on(cx.move_terms(true), source, target)?,
    };
    match renamed {
        Moved::IsLong => return Err(Need::TimeAlone.into()),
        Moved::NoSource => return Err(CommandError::NO_SUCH_KEY.into()),
        Moved::Done | Moved::TargetTaken => reply.ok(),
    }
    Ok(())
}
