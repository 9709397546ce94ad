//! KEYS: all keys that match a pattern.

use base::glob::matches;
use keyspace::is_expired;

use crate::prelude::*;

pub(super) static KEYS: Command = Command {
    name: "keys",
    summary: "Returns all keys that match a pattern.",
    since: "1.0.0",
    complexity: "O(N), N being the number of keys in the database",
    arity: Arity::exactly(2),
    flags: Flags::READONLY,
    categories: Categories::DANGEROUS,
    args: &[Arg::pattern("pattern")],
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    example: "> MSET lake deep hill high\nOK\n> KEYS l*\n1) \"lake\"",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let pattern = args.at(1);
    let now = cx.now;
    let mut count = 0;
    let keys = reply.deferred();
    cx.access.for_each_entry(cx.session.database, &mut |entry| {
        let is_wanted = pattern == b"*" || matches(pattern, entry.key(), false);
        if is_wanted && !is_expired(&entry, now) {
            reply.bulk(entry.key());
            count += 1;
        }
    });
    reply.finish(keys, |reply| reply.array(count));
    Ok(())
}
