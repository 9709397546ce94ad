//! RPUSH: adds elements at the tail of a list.

use collections::End;
use keyspace::WhenAbsent;

use crate::prelude::*;

/// The row.
pub static RPUSH: Command = Command {
    name: "rpush",
    summary: "Adds elements at the tail of a list, which is made where it is absent.",
    since: "1.0.0",
    complexity: "O(N), N being the elements that are added",
    group: Group::List,
    arity: Arity::at_least(3),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::INSERT))],
    args: &[Arg::key("key"), Arg::part("element").multiple()],
    history: &[("2.4.0", "Accepts multiple `element` arguments.")],
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > LRANGE boats 0 -1\n1) \"oar\"\n2) \"mast\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let length = cx.view.push(args.key(0), End::Tail, args.from(2), WhenAbsent::Create)?;
    reply.integer(length as i64);
    Ok(())
}
