//! FLUSHDB: removes all keys.

use super::flush_mode::{FLUSH_MODE, check};
use crate::prelude::*;

pub(super) static FLUSHDB: Command = Command {
    name: "flushdb",
    summary: "Removes all keys of the database.",
    since: "1.0.0",
    complexity: "O(N), N being the number of keys in the database",
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
    example: "> SET lake deep\nOK\n> FLUSHDB\nOK\n> DBSIZE\n(integer) 0",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    check(args)?;
    cx.access.flush_database(cx.session.database, cx.now);
    reply.ok();
    Ok(())
}
