//! ZRANGESTORE: a part of a sorted set as another one.

use collections::{RankedMembers, SortedSet};

use super::range::{LIMIT, RangeRequest};
use crate::prelude::*;

pub(super) static ZRANGESTORE: Command = Command {
    name: "zrangestore",
    summary: "Makes a key hold a part of a sorted set and returns how many members it has.",
    since: "6.2.0",
    complexity: "O(log N + M), M being the members that are stored",
    group: Group::SortedSet,
    arity: Arity::at_least(5),
    flags: Flags::DENYOOM,
    keys: &[
        KeySpec::at(1, KeyFlags::OW.with(KeyFlags::UPDATE)),
        KeySpec::at(2, KeyFlags::RO.with(KeyFlags::ACCESS)),
    ],
    args: &[
        Arg::key("dst"),
        Arg::key("src").spec(1),
        Arg::string("min").among(&["0", "1", "-1", "-3", "5"]),
        Arg::string("max").among(&["0", "2", "-1", "10"]),
        Arg::one_of("sortby", &[Arg::word("byscore", "BYSCORE"), Arg::word("bylex", "BYLEX")])
            .optional(),
        Arg::word("rev", "REV").optional(),
        LIMIT,
    ],
    example: "> ZADD depths 1 shore 5 reef 9 trench\n(integer) 3\n\
        > ZRANGESTORE deep depths 5 +inf BYSCORE\n(integer) 2\n\
        > ZRANGE deep 0 -1\n1) \"reef\"\n2) \"trench\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let request = RangeRequest::of_store(args)?;
    let (target, source) = (args.key(0), args.key(1));
    let view = cx.view.as_read();
    let found = view.collection::<SortedSet>(source)?.map(|set| (set, request.ranks(set)));
    let bytes = found
        .as_ref()
        .map_or(0, |(set, ranks)| RankedMembers::range_bytes_max(*set, ranks.clone()));
    let scratch = cx.scratch(target, bytes, 0)?;
    let ranked = found.map_or_else(RankedMembers::default, |(set, ranks)| {
        RankedMembers::of_range(set, ranks, request.storing_order(), view.rules(source))
    });
    let count = ranked.len();
    cx.view.name_event("zrangestore");
    cx.view.store_ranked(target, ranked, scratch)?;
    reply.integer(count as i64);
    Ok(())
}
