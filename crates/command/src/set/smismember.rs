//! SMISMEMBER: whether members are there.

use collections::Set;

use crate::prelude::*;

pub(super) static SMISMEMBER: Command = Command {
    name: "smismember",
    summary: "Returns for each of several members whether a set has it.",
    since: "6.2.0",
    complexity: "O(N), N being the members that are asked for",
    group: Group::Set,
    arity: Arity::at_least(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::part("member").multiple()],
    example: "> SADD fish pike\n(integer) 1\n\
        > SMISMEMBER fish pike eel\n1) (integer) 1\n2) (integer) 0",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let set = cx.view.collection::<Set>(key)?;
    reply.array(args.len() - 2);
    for member in args.from(2) {
        let is_there = set.is_some_and(|set| set.contains(member, cx.view.rules(key)));
        reply.integer(i64::from(is_there));
    }
    Ok(())
}
