//! LPUSH: adds elements at the head of a list.

use collections::End;
use keyspace::WhenAbsent;

use crate::prelude::*;

pub(super) static LPUSH: Command = Command {
    name: "lpush",
    summary: "Adds elements at the head of a list, which is made where it is absent.",
    since: "1.0.0",
    complexity: "O(N), N being the elements that are added",
    group: Group::List,
    arity: Arity::at_least(3),
    flags: Flags::DENYOOM.with(Flags::FAST).with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::INSERT))],
    args: &[Arg::key("key"), Arg::part("element").multiple()],
    history: &[("2.4.0", "Accepts multiple `element` arguments.")],
    example: "> LPUSH boats oar mast\n(integer) 2\n\
        > LRANGE boats 0 -1\n1) \"mast\"\n2) \"oar\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    push(cx, args, End::Head, WhenAbsent::Create, reply)
}

/// Adds the elements of a request at `end` of its list; replies with the list's length.
pub(super) fn push(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    end: End,
    when_absent: WhenAbsent,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let length = cx.view.push(args.key(0), end, args.from(2), when_absent)?;
    reply.integer(length as i64);
    Ok(())
}
