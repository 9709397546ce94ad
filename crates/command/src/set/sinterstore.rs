//! SINTERSTORE, SUNIONSTORE and SDIFFSTORE: store what SINTER, SUNION and SDIFF return.

use super::algebra::{Operation, Sources};
use crate::prelude::*;

pub(super) static SINTERSTORE: Command = Command {
    name: "sinterstore",
    summary: "Makes a key the set of the members that all of several sets have.",
    since: "1.0.0",
    complexity: "O(N*M), N being the members of the smallest set and M the number of sets",
    group: Group::Set,
    arity: Arity::at_least(3),
    flags: Flags::DENYOOM,
    keys: &[
        KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE)),
        KeySpec::all_from(2, KeyFlags::RO.with(KeyFlags::ACCESS)),
    ],
    args: &[Arg::key("destination"), Arg::key("key").spec(1).multiple()],
    example: "> SADD fish pike perch\n(integer) 2\n\
        > SADD caught perch boot\n(integer) 2\n\
        > SINTERSTORE dinner fish caught\n(integer) 1\n\
        > SMEMBERS dinner\n1) \"perch\"",
    handler: Handler::Write(|cx, args, reply| store(cx, args, reply, Operation::Intersection)),
    ..Command::DEFAULT
};

const OVERWRITING: &[KeySpec] = &[
    KeySpec::at(1, KeyFlags::OW.with(KeyFlags::UPDATE)),
    KeySpec::all_from(2, KeyFlags::RO.with(KeyFlags::ACCESS)),
];

pub(super) static SUNIONSTORE: Command = Command {
    name: "sunionstore",
    summary: "Makes a key the set of the members that at least one of several sets has.",
    complexity: "O(N), N being the members of all sets",
    keys: OVERWRITING,
    example: "> SADD fish pike perch\n(integer) 2\n\
        > SADD caught perch boot\n(integer) 2\n\
        > SUNIONSTORE all fish caught\n(integer) 3",
    handler: Handler::Write(|cx, args, reply| store(cx, args, reply, Operation::Union)),
    ..SINTERSTORE
};

pub(super) static SDIFFSTORE: Command = Command {
    name: "sdiffstore",
    summary: "Makes a key the set of the members that only the first of several sets has.",
    complexity: "O(N), N being the members of all sets",
    keys: OVERWRITING,
    example: "> SADD fish pike perch\n(integer) 2\n\
        > SADD caught perch boot\n(integer) 2\n\
        > SDIFFSTORE free fish caught\n(integer) 1\n\
        > SMEMBERS free\n1) \"pike\"",
    handler: Handler::Write(|cx, args, reply| store(cx, args, reply, Operation::Difference)),
    ..SINTERSTORE
};

fn store(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    operation: Operation,
) -> Result<(), Unfinished> {
    let (target, keys) = args.keys().split_first().expect("the arity asks for keys");
    let rules = cx.view.current_rules(target);
    let sources = Sources::of(cx.view.as_read(), keys, &rules)?;
    let (result, scratch) = sources.build(operation, &|bytes| cx.scratch(target, bytes, 0))?;
    // From here on the memory is the value's.
    drop(scratch);
    let count = result.len();
    cx.view.name_event(match operation {
        Operation::Intersection => "sinterstore",
        Operation::Union => "sunionstore",
        Operation::Difference => "sdiffstore",
    });
    cx.view.store_collection(target, result)?;
    reply.integer(count as i64);
    Ok(())
}
