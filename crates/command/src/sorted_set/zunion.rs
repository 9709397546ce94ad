//! ZUNION, ZINTER and ZDIFF: members of several sorted sets, or sets, with what their scores come
//! to.

use collections::Element;

use super::combine::{AGGREGATE, Operation, Options, WEIGHTS, WITH_SCORES, options_at, sources};
use crate::handler::element::PairForm;
use crate::prelude::*;

pub(super) static ZUNION: Command = Command {
    name: "zunion",
    summary: "Returns the members that any of several sorted sets has.",
    since: "6.2.0",
    complexity: "O(N + M log M), N being the members of all sets, M those of the result",
    group: Group::SortedSet,
    arity: Arity::at_least(3),
    keys: &[KeySpec::counted_at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::count_of_next("numkeys"),
        Arg::key("key").multiple(),
        WEIGHTS,
        AGGREGATE,
        WITH_SCORES,
    ],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZADD more 2 reef\n(integer) 1\n\
        > ZUNION 2 depths more WEIGHTS 1 10 WITHSCORES\n\
        1) \"shore\"\n2) \"1\"\n3) \"reef\"\n4) \"25\"",
    handler: Handler::Read(|cx, args, reply| {
        reply_combined(cx, args, reply, Operation::Union, &ZUNION)
    }),
    ..Command::DEFAULT
};

pub(super) static ZINTER: Command = Command {
    name: "zinter",
    summary: "Returns the members that all of several sorted sets have.",
    complexity: "O(N K + M log M), N being the members of the smallest set, K the number of sets, \
        M the members of the result",
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > SADD seen reef bank\n(integer) 2\n\
        > ZINTER 2 depths seen WITHSCORES\n1) \"reef\"\n2) \"6\"",
    handler: Handler::Read(|cx, args, reply| {
        reply_combined(cx, args, reply, Operation::Intersection, &ZINTER)
    }),
    ..ZUNION
};

pub(super) static ZDIFF: Command = Command {
    name: "zdiff",
    summary: "Returns the members of a sorted set that others do not have.",
    complexity: "O(N + M log M), N being the members of all sets, or the product of those of the \
        first and the number of sets where that is less; M those of the result",
    args: &[Arg::count_of_next("numkeys"), Arg::key("key").multiple(), WITH_SCORES],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > SADD seen reef bank\n(integer) 2\n\
        > ZDIFF 2 depths seen\n1) \"shore\"",
    handler: Handler::Read(|cx, args, reply| {
        reply_combined(cx, args, reply, Operation::Difference, &ZDIFF)
    }),
    ..ZUNION
};

/// Replies with what the sources of a request of `command` come to.
fn reply_combined(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    operation: Operation,
    command: &'static Command,
) -> Result<(), Unfinished> {
    let options_at = options_at(args, 1, command)?;
    let keys = args.keys();
    let sources = sources(&cx.view, keys)?;
    let options = Options::parse(args, options_at, operation, keys.len(), true)?;
    let _scratch = cx.scratch(&keys[0], options.combined_bytes_max(&sources, keys))?;
    let ranked = options.combine(&sources, cx.view.rules(&keys[0]));
    let form = PairForm::new(options.with_scores, reply);
    form.begin(ranked.len(), reply);
    for (member, score) in ranked.iter() {
        if reply.is_cut() {
            return Ok(());
        }
        form.write_scored(Element::Bytes(member), score, reply);
    }
    Ok(())
}
