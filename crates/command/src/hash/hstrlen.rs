//! HSTRLEN: the length of a value.

use collections::Hash;

use crate::prelude::*;

pub(super) static HSTRLEN: Command = Command {
    name: "hstrlen",
    summary: "Returns the length of the value of a field of a hash.",
    since: "3.2.0",
    group: Group::Hash,
    arity: Arity::exactly(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    args: &[Arg::key("key"), Arg::part("field")],
    example: "> HSET lake colour blue\n(integer) 1\n> HSTRLEN lake colour\n(integer) 4",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let hash = cx.view.collection::<Hash>(key)?;
    let value = hash.and_then(|hash| hash.get(args.at(2), cx.view.rules(key)));
    reply.integer(value.map_or(0, |value| value.byte_count()) as i64);
    Ok(())
}
