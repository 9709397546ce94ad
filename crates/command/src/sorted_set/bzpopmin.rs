//! BZPOPMIN and BZPOPMAX: take a member from an end of the first sorted set that has one; wait for
//! one.

use collections::Direction;

use super::zmpop::pop_first_or_wait;
use crate::parse::timeout;
use crate::prelude::*;

pub(super) static BZPOPMIN: Command = Command {
    name: "bzpopmin",
    summary: "Takes the lowest member of the first sorted set that has one; waits for one.",
    since: "5.0.0",
    complexity: "O(K + log N), K being the number of keys",
    group: Group::SortedSet,
    arity: Arity::at_least(3),
    flags: Flags::BLOCKING.with(Flags::FAST),
    keys: &[KeySpec::all_but_last_from(
        1,
        KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE),
    )],
    args: &[Arg::key("key").multiple(), Arg::double("timeout").only_within(1, 2)],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > BZPOPMIN heights depths 0.5\n1) \"depths\"\n2) \"shore\"\n3) \"1\"\n\
        > BZPOPMIN heights 0.01\n(nil)",
    handler: Handler::Write(|cx, args, reply| pop_one(cx, args, reply, Direction::Up)),
    ..Command::DEFAULT
};

pub(super) static BZPOPMAX: Command = Command {
    name: "bzpopmax",
    summary: "Takes the highest member of the first sorted set that has one; waits for one.",
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > BZPOPMAX heights depths 0.5\n1) \"depths\"\n2) \"reef\"\n3) \"5\"\n\
        > BZPOPMAX heights 0.01\n(nil)",
    handler: Handler::Write(|cx, args, reply| pop_one(cx, args, reply, Direction::Down)),
    ..BZPOPMIN
};

fn pop_one(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    direction: Direction,
) -> Result<(), Unfinished> {
    let timeout = timeout::seconds(args, args.len() - 1, cx.now())?;
    pop_first_or_wait(cx, args, (direction, 1), false, timeout, reply)
}
