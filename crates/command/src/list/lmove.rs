//! LMOVE and RPOPLPUSH, and BLMOVE and BRPOPLPUSH, which wait for an element: move one from an end
//! of a list to an end of another, or of the same.

use collections::{End, List};
use keyspace::{ValueType, WhenAbsent};

use super::end_at;
use crate::parse::timeout;
use crate::prelude::*;

const SOURCE: KeySpec = KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE));
const TARGET: KeySpec = KeySpec::at(2, KeyFlags::RW.with(KeyFlags::INSERT));

const ENDS: &[Arg] = &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")];

pub(super) static LMOVE: Command = Command {
    name: "lmove",
    summary: "Moves an element from an end of a list to an end of a list, and returns it.",
    since: "6.2.0",
    group: Group::List,
    arity: Arity::exactly(5),
    flags: Flags::DENYOOM.with(Flags::EFFECT),
    keys: &[SOURCE, TARGET],
    args: &[
        Arg::key("source"),
        Arg::key("destination").spec(1),
        Arg::one_of("wherefrom", ENDS),
        Arg::one_of("whereto", ENDS),
    ],
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > LMOVE boats ships RIGHT LEFT\n\"mast\"\n\
        > LRANGE ships 0 -1\n1) \"mast\"\n\
        > LMOVE rafts ships LEFT LEFT\n(nil)",
    handler: Handler::Write(|cx, args, reply| {
        let ends = (end_at(args, 3)?, end_at(args, 4)?);
        if !move_element(cx, args, ends, reply)? {
            reply.null();
        }
        Ok(())
    }),
    ..Command::DEFAULT
};

pub(super) static RPOPLPUSH: Command = Command {
    name: "rpoplpush",
    summary: "Moves the last element of a list to the head of a list, and returns it.",
    since: "1.2.0",
    arity: Arity::exactly(3),
    flags: Flags::DENYOOM,
    args: &[Arg::key("source"), Arg::key("destination").spec(1)],
    deprecated: Some(("6.2.0", "`LMOVE` with the `RIGHT` and `LEFT` arguments")),
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > RPOPLPUSH boats ships\n\"mast\"\n\
        > RPOPLPUSH rafts ships\n(nil)",
    handler: Handler::Write(|cx, args, reply| {
        if !move_element(cx, args, (End::Tail, End::Head), reply)? {
            reply.null();
        }
        Ok(())
    }),
    ..LMOVE
};

pub(super) static BLMOVE: Command = Command {
    name: "blmove",
    summary: "Moves an element from an end of a list to an end of a list; waits for one.",
    arity: Arity::exactly(6),
    flags: Flags::DENYOOM.with(Flags::BLOCKING),
    args: &[
        Arg::key("source"),
        Arg::key("destination").spec(1),
        Arg::one_of("wherefrom", ENDS),
        Arg::one_of("whereto", ENDS),
        Arg::double("timeout").only_within(1, 2),
    ],
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > BLMOVE boats ships RIGHT LEFT 0.5\n\"mast\"\n\
        > BLMOVE rafts ships LEFT LEFT 0.01\n(nil)",
    handler: Handler::Write(|cx, args, reply| {
        let ends = (end_at(args, 3)?, end_at(args, 4)?);
        move_or_wait(cx, args, ends, reply)
    }),
    ..LMOVE
};

pub(super) static BRPOPLPUSH: Command = Command {
    name: "brpoplpush",
    summary: "Moves the last element of a list to the head of a list; waits for one.",
    since: "2.2.0",
    arity: Arity::exactly(4),
    flags: Flags::DENYOOM.with(Flags::BLOCKING),
    args: &[
        Arg::key("source"),
        Arg::key("destination").spec(1),
        Arg::double("timeout").only_within(1, 2),
    ],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    deprecated: Some(("6.2.0", "`BLMOVE` with the `RIGHT` and `LEFT` arguments")),
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > BRPOPLPUSH boats ships 0.5\n\"mast\"\n\
        > BRPOPLPUSH rafts ships 0.01\n(nil)",
    handler: Handler::Write(|cx, args, reply| {
        move_or_wait(cx, args, (End::Tail, End::Head), reply)
    }),
    ..LMOVE
};

/// Moves as [`move_element`] does, or waits for an element. The last argument says how long.
fn move_or_wait(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    ends: (End, End),
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let timeout = timeout::seconds(args, args.len() - 1, cx.now())?;
    if move_element(cx, args, ends, reply)? {
        return Ok(());
    }
    // Redis answers with another null where it may not wait than where it has.
    let wait = Wait::new(timeout, |reply| reply.null_array(), 1).refused_by(|reply| reply.null());
    Err(wait.of_type(ValueType::List).into())
}

/// Moves an element from the first of `ends` of the source to the second of the target, and replies
/// with it; returns false, without a reply, where there is no source. The type of the target does
/// not matter then.
fn move_element(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    (from, to): (End, End),
    reply: &mut Reply<'_>,
) -> Result<bool, Unfinished> {
    let (source, target) = (args.key(0), args.key(1));
    if source.bytes == target.bytes {
        let rotated = cx.view.rotate(source, from, to, |element| reply.bulk(element))?;
        return Ok(rotated.is_some());
    }
    let Some(list) = cx.view.collection::<List>(source)? else { return Ok(false) };
    let index = if from == End::Head { 0 } else { list.len() - 1 };
    let element = list.get(index).expect("a list has an element");
    cx.view.collection::<List>(target)?;
    let length = element.byte_count() as u64;
    let scratch = cx.scratch(source, length, length)?;
    let element = element.to_vec();
    // What may lack room comes first; it is Redis's order of the events, too.
    cx.view.push(target, to, std::iter::once(element.as_slice()), WhenAbsent::Create)?;
    cx.view.pop(source, from, 1, |_, _| ())?;
    reply.bulk(&element);
    drop(scratch);
    Ok(true)
}
