//! HEXISTS: whether a field is there.

use collections::Hash;

use crate::prelude::*;

pub(super) static HEXISTS: Command = Command {
    name: "hexists",
    summary: "Returns whether a hash has a field.",
    since: "2.0.0",
    group: Group::Hash,
    arity: Arity::exactly(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    args: &[Arg::key("key"), Arg::part("field")],
    example: "> HSET lake depth 12\n(integer) 1\n> HEXISTS lake depth\n(integer) 1",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let hash = cx.view.collection::<Hash>(key)?;
    let is_there = hash.is_some_and(|hash| hash.get(args.at(2), cx.view.rules(key)).is_some());
    reply.integer(i64::from(is_there));
    Ok(())
}
