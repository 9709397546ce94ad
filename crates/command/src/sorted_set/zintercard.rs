//! ZINTERCARD: how many members several sorted sets, or sets, have in common.

use collections::{intersection_count, intersection_count_bytes_max};

use super::combine::{options_at, sources};
use crate::prelude::*;

const NEGATIVE_LIMIT: CommandError = CommandError::Fixed("ERR LIMIT can't be negative");

pub(super) static ZINTERCARD: Command = Command {
    name: "zintercard",
    summary: "Returns how many members several sorted sets have in common.",
    since: "7.0.0",
    complexity: "O(N K), N being the members of the smallest set, K the number of sets",
    group: Group::SortedSet,
    arity: Arity::at_least(3),
    keys: &[KeySpec::counted_at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::count_of_next("numkeys"),
        Arg::key("key").multiple(),
        Arg::integer("limit").token("LIMIT").within(0, 5).optional(),
    ],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > SADD seen reef bank shore\n(integer) 3\n\
        > ZINTERCARD 2 depths seen\n(integer) 2\n\
        > ZINTERCARD 2 depths seen LIMIT 1\n(integer) 1",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let options_at = options_at(args, 1, &ZINTERCARD)?;
    let sources = sources(&cx.view, args.keys())?;
    let count_max = match limit(args, options_at)? {
        0 => usize::MAX,
        count => count,
    };
    let bytes = intersection_count_bytes_max(&sources);
    let _scratch = cx.scratch(args.key(0), bytes)?;
    let count = intersection_count(&sources, count_max, cx.view.rules(args.key(0)));
    reply.integer(count as i64);
    Ok(())
}

/// Reads the options from argument `at` on; 0 is no limit. The last one counts.
fn limit(args: Args<'_>, at: usize) -> Result<usize, CommandError> {
    let mut limit = 0;
    for at in (at..args.len()).step_by(2) {
        if at + 1 == args.len() || !args.is(at, "LIMIT") {
            return Err(CommandError::Syntax);
        }
        limit = args.count(at + 1).map_err(|_| NEGATIVE_LIMIT)?;
    }
    Ok(limit)
}
