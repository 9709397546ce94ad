//! SISMEMBER: whether a member is there.

use collections::Set;

use crate::prelude::*;

pub(super) static SISMEMBER: Command = Command {
    name: "sismember",
    summary: "Returns whether a set has a member.",
    since: "1.0.0",
    group: Group::Set,
    arity: Arity::exactly(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    args: &[Arg::key("key"), Arg::part("member")],
    example: "> SADD fish pike\n(integer) 1\n\
        > SISMEMBER fish pike\n(integer) 1\n\
        > SISMEMBER fish eel\n(integer) 0",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let set = cx.view.collection::<Set>(key)?;
    let is_there = set.is_some_and(|set| set.contains(args.at(2), cx.view.rules(key)));
    reply.integer(i64::from(is_there));
    Ok(())
}
