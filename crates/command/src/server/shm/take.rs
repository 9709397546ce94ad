//! SHM TAKE: the second half of taking a value that a process has pinned.
//!
//! The offset says which value is meant only as long as the caller's pin keeps others from lying
//! there. So it is this session's pin, or that of a lane's parent, that is looked for, under the
//! lock that whoever frees the block needs: one that is gone, as it was released or its session
//! ended, takes nothing. In a transaction or a script nobody would learn whether it did.

use crate::prelude::*;

pub(super) static TAKE: Command = Command {
    name: "shm|take",
    summary: "Removes a key if its value is pinned at this place; returns whether it did.",
    since: "7.2.4",
    group: Group::Server,
    arity: Arity::exactly(4),
    flags: Flags::NOSCRIPT.with(Flags::NO_MULTI).with(Flags::FAST),
    keys: &[KeySpec::at(2, KeyFlags::RM.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::integer("offset")],
    note: "For clients that have pinned the value at `offset`, which they have read by \
        themselves: while it is pinned no other value lies there, so that of several that take one \
        key one gets it. Sent by the connection that has attached or by a lane of it; by any other \
        nothing is pinned.",
    example: "> SET lake deep\nOK\n> SHM TAKE lake 0\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let offset = args.integer(3)?;
    let key = args.key(0);
    let is_meant = cx.view.entry(key).is_some_and(|entry| {
        i64::try_from(entry.value_offset()) == Ok(offset) && entry.is_held(cx.pins)
    });
    let is_taken = is_meant && cx.view.remove(key);
    reply.integer(i64::from(is_taken));
    Ok(())
}
