//! LPUSHX: adds elements at the head of a list that is there.

use collections::End;
use keyspace::WhenAbsent;

use crate::prelude::*;

/// The row.
pub static LPUSHX: Command = Command {
    name: "lpushx",
    summary: "Adds elements at the head of a list, if it is there.",
    since: "2.2.0",
    complexity: "O(N), N being the elements that are added",
    group: Group::List,
    arity: Arity::at_least(3),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::INSERT))],
    args: &[Arg::key("key"), Arg::part("element").multiple()],
    history: &[("4.0.0", "Accepts multiple `element` arguments.")],
    example: "> LPUSHX boats oar\n(integer) 0\n\
        > RPUSH boats mast\n(integer) 1\n\
        > LPUSHX boats oar\n(integer) 2",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let length = cx.view.push(args.key(0), End::Head, args.from(2), WhenAbsent::Skip)?;
    reply.integer(length as i64);
    Ok(())
}
