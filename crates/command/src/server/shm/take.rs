//! SHM TAKE: the second half of taking a value that a process has pinned.

use crate::prelude::*;

/// The row.
pub static TAKE: Command = Command {
    name: "shm|take",
    summary: "Removes a key if its value lies at this place, and returns whether it did.",
    since: "7.2.4",
    group: Group::Server,
    arity: Arity::exactly(4),
    flags: Flags::FAST,
    keys: &[KeySpec::at(2, KeyFlags::RM.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::integer("offset")],
    note: "For clients that have pinned the value at `offset`, which they have read by \
        themselves: while it is pinned no other value lies there, so that of several that take one \
        key one gets it.",
    example: "> SET lake deep\nOK\n> SHM TAKE lake 0\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let offset = args.integer(3)?;
    let key = args.key(0);
    let found = cx.view.entry(key).map(|entry| entry.value_offset());
    let is_there = found.is_some_and(|found| i64::try_from(found) == Ok(offset));
    let is_taken = is_there && cx.view.remove(key);
    reply.integer(i64::from(is_taken));
    Ok(())
}
