//! FLUSHALL: removes all keys.

use super::flush_mode::{FLUSH_MODE, check};
use crate::prelude::*;

pub(super) static FLUSHALL: Command = Command {
    name: "flushall",
    summary: "Removes all keys of all databases.",
    since: "1.0.0",
    complexity: "O(N), N being the number of keys in all databases",
    group: Group::Server,
    arity: Arity::at_least(1),
    flags: Flags::WRITE.with(Flags::KEYLESS),
    categories: Categories::KEYSPACE.with(Categories::DANGEROUS),
    args: &[FLUSH_MODE],
    history: &[
        ("4.0.0", "Added the `ASYNC` flushing mode modifier."),
        ("6.2.0", "Added the `SYNC` flushing mode modifier."),
    ],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    example: "> SET lake deep\nOK\n> FLUSHALL\nOK\n> DBSIZE\n(integer) 0",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    check(args)?;
    cx.access.flush_all(cx.now);
    reply.ok();
    Ok(())
}
