//! ZMPOP and BZMPOP: take members from an end of the first sorted set that has some; the second
//! waits for one.

use std::time::Duration;

use collections::Direction;
use keyspace::{ValueType, WrongType};

use super::zpopmax::pop_members;
use crate::handler::element::PairForm;
use crate::parse::timeout;
use crate::prelude::*;

const NO_KEYS: CommandError = CommandError::Fixed("ERR numkeys should be greater than 0");
const NO_COUNT: CommandError = CommandError::Fixed("ERR count should be greater than 0");

const KEY_FLAGS: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);
const END: Arg = Arg::one_of("where", &[Arg::word("min", "MIN"), Arg::word("max", "MAX")]);
const COUNT: Arg = Arg::integer("count").token("COUNT").within(1, 10).optional();

pub(super) static ZMPOP: Command = Command {
    name: "zmpop",
    summary: "Takes members from an end of the first sorted set that has some.",
    since: "7.0.0",
    complexity: "O(K + M log N), K being the number of keys, M the members that are taken",
    group: Group::SortedSet,
    arity: Arity::at_least(4),
    keys: &[KeySpec::counted_at(1, KEY_FLAGS)],
    args: &[Arg::count_of_next("numkeys"), Arg::key("key").multiple(), END, COUNT],
    example: "> ZADD depths 1 shore 5 reef 9 trench\n(integer) 3\n\
        > ZMPOP 2 heights depths MIN COUNT 2\n1) \"depths\"\n\
        2) 1) 1) \"shore\"\n      2) \"1\"\n   2) 1) \"reef\"\n      2) \"5\"\n\
        > ZMPOP 1 heights MAX\n(nil)",
    handler: Handler::Write(|cx, args, reply| {
        let end = end_and_count(args, 1)?;
        if !pop_first(cx, args, end, true, reply)? {
            reply.null_array();
        }
        Ok(())
    }),
    ..Command::DEFAULT
};

pub(super) static BZMPOP: Command = Command {
    name: "bzmpop",
    summary: "Takes members from an end of the first sorted set that has some; waits for one.",
    arity: Arity::at_least(5),
    flags: Flags::BLOCKING,
    keys: &[KeySpec::counted_at(2, KEY_FLAGS)],
    args: &[
        Arg::double("timeout").only_within(1, 2),
        Arg::count_of_next("numkeys"),
        Arg::key("key").multiple(),
        END,
        COUNT,
    ],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > BZMPOP 0.5 2 heights depths MAX\n1) \"depths\"\n2) 1) 1) \"reef\"\n      2) \"5\"\n\
        > BZMPOP 0.01 1 heights MAX\n(nil)",
    handler: Handler::Write(|cx, args, reply| {
        let end = end_and_count(args, 2)?;
        let timeout = timeout::seconds(args, 1, cx.now())?;
        pop_first_or_wait(cx, args, end, true, timeout, reply)
    }),
    ..ZMPOP
};

/// Reads what is behind the keys that `args` count at `count_at`: from which end members are taken,
/// and how many.
fn end_and_count(args: Args<'_>, count_at: usize) -> Result<(Direction, usize), CommandError> {
    let key_count = positive(args, count_at, NO_KEYS)?;
    let end_at = key_count.saturating_add(count_at + 1);
    if end_at >= args.len() {
        return Err(CommandError::Syntax);
    }
    let direction = match () {
        () if args.is(end_at, "MIN") => Direction::Up,
        () if args.is(end_at, "MAX") => Direction::Down,
        () => return Err(CommandError::Syntax),
    };
    match args.len() - end_at - 1 {
        0 => Ok((direction, 1)),
        1 => Err(CommandError::Syntax),
        _ if !args.is(end_at + 1, "COUNT") => Err(CommandError::Syntax),
        // The number is read before what is wrong behind it is met.
        more => match positive(args, end_at + 2, NO_COUNT)? {
            count if more == 2 => Ok((direction, count)),
            _ => Err(CommandError::Syntax),
        },
    }
}

fn positive(args: Args<'_>, index: usize, otherwise: CommandError) -> Result<usize, CommandError> {
    let number = args.integer(index).ok().and_then(|number| usize::try_from(number).ok());
    number.filter(|&number| number > 0).ok_or(otherwise)
}

/// Takes members from one end of the first sorted set among the request's keys, and replies with
/// its key and them, nested or flat. Returns whether there is one. A key of another type before it
/// is an error; one behind it is not looked at.
fn pop_first(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    end: (Direction, usize),
    is_nested: bool,
    reply: &mut Reply<'_>,
) -> Result<bool, WrongType> {
    for key in args.keys() {
        let form = if is_nested { PairForm::Nested } else { PairForm::Flat };
        let head = |reply: &mut Reply<'_>, count| {
            reply.array(if is_nested { 2 } else { 1 + 2 * count });
            reply.bulk(key.bytes);
            if is_nested {
                reply.array(count);
            }
        };
        if pop_members(cx, key, end, form, reply, head)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// As [`pop_first`], and waits for a sorted set at one of the keys where there is none.
pub(super) fn pop_first_or_wait(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    end: (Direction, usize),
    is_nested: bool,
    timeout: Duration,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    if pop_first(cx, args, end, is_nested, reply)? {
        return Ok(());
    }
    let wait = Wait::new(timeout, |reply| reply.null_array(), args.keys().len());
    Err(wait.of_type(ValueType::SortedSet).into())
}
