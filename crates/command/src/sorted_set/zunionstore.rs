//! ZUNIONSTORE, ZINTERSTORE and ZDIFFSTORE: what several sorted sets, or sets, come to as a sorted
//! set.

use super::combine::{AGGREGATE, Operation, Options, WEIGHTS, options_at, sources};
use crate::prelude::*;

pub(super) static ZUNIONSTORE: Command = Command {
    name: "zunionstore",
    summary: "Makes a key hold the members that any of several sorted sets has.",
    since: "2.0.0",
    complexity: "O(N + M log M), N being the members of all sets, M those of the result",
    group: Group::SortedSet,
    arity: Arity::at_least(4),
    flags: Flags::DENYOOM,
    keys: &[
        KeySpec::at(1, KeyFlags::OW.with(KeyFlags::UPDATE)),
        KeySpec::counted_at(2, KeyFlags::RO.with(KeyFlags::ACCESS)),
    ],
    args: &[
        Arg::key("destination"),
        Arg::count_of_next("numkeys"),
        Arg::key("key").spec(1).multiple(),
        WEIGHTS,
        AGGREGATE,
    ],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZADD more 2 reef\n(integer) 1\n\
        > ZUNIONSTORE all 2 depths more AGGREGATE MAX\n(integer) 2\n\
        > ZRANGE all 0 -1 WITHSCORES\n1) \"shore\"\n2) \"1\"\n3) \"reef\"\n4) \"5\"",
    handler: Handler::Write(|cx, args, reply| {
        store(cx, args, reply, Operation::Union, &ZUNIONSTORE)
    }),
    ..Command::DEFAULT
};

pub(super) static ZINTERSTORE: Command = Command {
    name: "zinterstore",
    summary: "Makes a key hold the members that all of several sorted sets have.",
    complexity: "O(N K + M log M), N being the members of the smallest set, K the number of sets, \
        M the members of the result",
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > SADD seen reef bank\n(integer) 2\n\
        > ZINTERSTORE common 2 depths seen WEIGHTS 1 0\n(integer) 1\n\
        > ZSCORE common reef\n\"5\"",
    handler: Handler::Write(|cx, args, reply| {
        store(cx, args, reply, Operation::Intersection, &ZINTERSTORE)
    }),
    ..ZUNIONSTORE
};

pub(super) static ZDIFFSTORE: Command = Command {
    name: "zdiffstore",
    summary: "Makes a key hold the members of a sorted set that others do not have.",
    since: "6.2.0",
    complexity: "O(N + M log M), N being the members of all sets, or the product of those of the \
        first and the number of sets where that is less; M those of the result",
    args: &[
        Arg::key("destination"),
        Arg::count_of_next("numkeys"),
        Arg::key("key").spec(1).multiple(),
    ],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > SADD seen reef bank\n(integer) 2\n\
        > ZDIFFSTORE unseen 2 depths seen\n(integer) 1\n\
        > ZRANGE unseen 0 -1\n1) \"shore\"",
    handler: Handler::Write(|cx, args, reply| {
        store(cx, args, reply, Operation::Difference, &ZDIFFSTORE)
    }),
    ..ZUNIONSTORE
};

/// Stores what the sources of a request of `command` come to.
fn store(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    operation: Operation,
    command: &'static Command,
) -> Result<(), Unfinished> {
    let options_at = options_at(args, 2, command)?;
    let (target, keys) = args.keys().split_first().expect("the arity asks for a key");
    let view = cx.view.as_read();
    let sources = sources(&view, keys)?;
    let options = Options::parse(args, options_at, operation, keys.len(), false)?;
    let scratch = cx.scratch(target, options.combined_bytes_max(&sources, keys), 0)?;
    let ranked = options.combine(&sources, view.rules(target));
    let count = ranked.len();
    cx.view.name_event(command.name);
    cx.view.store_ranked(target, ranked, scratch)?;
    reply.integer(count as i64);
    Ok(())
}
