//! SINTER, SUNION and SDIFF: what several sets have in common, together, or the first one alone.

use std::ops::ControlFlow;

use super::algebra::{Operation, Sources};
use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static SINTER: Command = Command {
    name: "sinter",
    summary: "Returns the members that all of several sets have.",
    since: "1.0.0",
    complexity: "O(N*M), N being the members of the smallest set and M the number of sets",
    group: Group::Set,
    arity: Arity::at_least(2),
    keys: &[KeySpec::all_from(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key").multiple()],
    tips: &["nondeterministic_output_order"],
    example: "> SADD fish pike perch\n(integer) 2\n\
        > SADD caught perch boot\n(integer) 2\n\
        > SINTER fish caught\n1) \"perch\"",
    handler: Handler::Read(|cx, args, reply| {
        reply_result(cx, args, reply, Operation::Intersection)
    }),
    ..Command::DEFAULT
};

pub(super) static SUNION: Command = Command {
    name: "sunion",
    summary: "Returns the members that at least one of several sets has.",
    complexity: "O(N), N being the members of all sets",
    example: "> SADD fish pike perch\n(integer) 2\n\
        > SADD caught perch boot\n(integer) 2\n\
        > SUNION fish caught\n1) \"pike\"\n2) \"perch\"\n3) \"boot\"",
    handler: Handler::Read(|cx, args, reply| reply_result(cx, args, reply, Operation::Union)),
    ..SINTER
};

pub(super) static SDIFF: Command = Command {
    name: "sdiff",
    summary: "Returns the members that the first of several sets has and no other.",
    complexity: "O(N), N being the members of all sets",
    example: "> SADD fish pike perch\n(integer) 2\n\
        > SADD caught perch boot\n(integer) 2\n\
        > SDIFF fish caught\n1) \"pike\"",
    handler: Handler::Read(|cx, args, reply| reply_result(cx, args, reply, Operation::Difference)),
    ..SINTER
};

fn reply_result(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    operation: Operation,
) -> Result<(), Unfinished> {
    let first = args.key(0);
    let sources = Sources::of(cx.view, args.keys(), cx.view.rules(first))?;
    let members = reply.deferred();
    let mut count = 0;
    sources.for_each(operation, &|bytes| cx.scratch(first, bytes), |member| {
        reply_element(member.element(), reply);
        count += 1;
        if reply.is_cut() { ControlFlow::Break(Ok(())) } else { ControlFlow::Continue(()) }
    })?;
    reply.finish(members, |reply| reply.set(count));
    Ok(())
}
