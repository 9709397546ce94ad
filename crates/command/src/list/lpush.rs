//! LPUSH, RPUSH, LPUSHX and RPUSHX: add elements at an end of a list.

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
    handler: Handler::Write(|cx, args, reply| push(cx, args, reply, End::Head, WhenAbsent::Create)),
    ..Command::DEFAULT
};

pub(super) static RPUSH: Command = Command {
    name: "rpush",
    summary: "Adds elements at the tail of a list, which is made where it is absent.",
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > LRANGE boats 0 -1\n1) \"oar\"\n2) \"mast\"",
    handler: Handler::Write(|cx, args, reply| push(cx, args, reply, End::Tail, WhenAbsent::Create)),
    ..LPUSH
};

pub(super) static LPUSHX: Command = Command {
    name: "lpushx",
    summary: "Adds elements at the head of a list, if it is there.",
    since: "2.2.0",
    history: &[("4.0.0", "Accepts multiple `element` arguments.")],
    example: "> LPUSHX boats oar\n(integer) 0\n\
        > RPUSH boats mast\n(integer) 1\n\
        > LPUSHX boats oar\n(integer) 2",
    handler: Handler::Write(|cx, args, reply| push(cx, args, reply, End::Head, WhenAbsent::Skip)),
    ..LPUSH
};

pub(super) static RPUSHX: Command = Command {
    name: "rpushx",
    summary: "Adds elements at the tail of a list, if it is there.",
    example: "> RPUSHX boats oar\n(integer) 0\n\
        > RPUSH boats mast\n(integer) 1\n\
        > RPUSHX boats oar\n(integer) 2",
    handler: Handler::Write(|cx, args, reply| push(cx, args, reply, End::Tail, WhenAbsent::Skip)),
    ..LPUSHX
};

/// Adds the elements of a request at `end` of its list; replies with the list's length.
fn push(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    end: End,
    when_absent: WhenAbsent,
) -> Result<(), Unfinished> {
    let length = cx.view.push(args.key(0), end, args.from(2), when_absent)?;
    reply.integer(length as i64);
    Ok(())
}
