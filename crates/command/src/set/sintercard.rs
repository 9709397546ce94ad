//! SINTERCARD: how many members several sets have in common.

use std::ops::ControlFlow;

use super::algebra::Sources;
use crate::prelude::*;

const NO_COUNT: CommandError = CommandError::Fixed("ERR numkeys should be greater than 0");
const TOO_FEW_KEYS: CommandError =
    CommandError::Fixed("ERR Number of keys can't be greater than number of args");
const NO_LIMIT: CommandError = CommandError::Fixed("ERR LIMIT can't be negative");

pub(super) static SINTERCARD: Command = Command {
    name: "sintercard",
    summary: "Returns how many members all of several sets have.",
    since: "7.0.0",
    complexity: "O(N*M), N being the members of the smallest set and M the number of sets",
    group: Group::Set,
    arity: Arity::at_least(3),
    keys: &[KeySpec::counted_at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::count_of_next("numkeys"),
        Arg::key("key").multiple(),
        Arg::integer("limit").token("LIMIT").within(0, 5).optional(),
    ],
    example: "> SADD fish pike perch\n(integer) 2\n\
        > SADD caught perch pike\n(integer) 2\n\
        > SINTERCARD 2 fish caught\n(integer) 2\n\
        > SINTERCARD 2 fish caught LIMIT 1\n(integer) 1",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let count = args.integer(1).ok().and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(NO_COUNT)?;
    if count > args.len() - 2 {
        return Err(TOO_FEW_KEYS.into());
    }
    let limit = limit(args, 2 + count)?;
    let sources = Sources::of(cx.view, args.keys(), cx.view.rules(args.key(0)))?;
    let mut found = 0;
    let visited = sources.intersect(|_| {
        found += 1;
        if found == limit { ControlFlow::Break(Ok(())) } else { ControlFlow::Continue(()) }
    });
    visited.break_value().unwrap_or(Ok(()))?;
    reply.integer(found as i64);
    Ok(())
}

/// Returns how many members are enough, as the arguments from `first` on say; 0 is all.
fn limit(args: Args<'_>, first: usize) -> Result<usize, CommandError> {
    let (mut limit, mut index) = (0, first);
    while index < args.len() {
        if !args.is(index, "LIMIT") || index + 1 == args.len() {
            return Err(CommandError::Syntax);
        }
        limit = args.count(index + 1).map_err(|_| NO_LIMIT)?;
        index += 2;
    }
    Ok(limit)
}
