//! ZPOPMAX and ZPOPMIN: take the members with the highest scores, or the lowest.

use base::Key;
use collections::{Direction, SortedSet};
use keyspace::WrongType;

use crate::handler::element::PairForm;
use crate::prelude::*;

pub(super) static ZPOPMAX: Command = Command {
    name: "zpopmax",
    summary: "Takes the member with the highest score, or several, and returns it.",
    since: "5.0.0",
    complexity: "O(M log N), M being the members that are taken",
    group: Group::SortedSet,
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::integer("count").within(0, 10).optional()],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZPOPMAX depths\n1) \"reef\"\n2) \"5\"",
    handler: Handler::Write(|cx, args, reply| pop(cx, args, reply, Direction::Down)),
    ..Command::DEFAULT
};

pub(super) static ZPOPMIN: Command = Command {
    name: "zpopmin",
    summary: "Takes the member with the lowest score, or several, and returns it.",
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZPOPMIN depths\n1) \"shore\"\n2) \"1\"",
    handler: Handler::Write(|cx, args, reply| pop(cx, args, reply, Direction::Up)),
    ..ZPOPMAX
};

/// Takes members from one end of the sorted set at the request's key.
fn pop(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    direction: Direction,
) -> Result<(), Unfinished> {
    if args.len() > 3 {
        return Err(CommandError::Syntax.into());
    }
    let key = args.key(0);
    let count = if args.len() == 3 { args.count(2)? } else { 1 };
    if count == 0 {
        cx.view.collection::<SortedSet>(key)?;
        reply.array(0);
        return Ok(());
    }
    // Each member with its score is an array of its own where several are asked for.
    let form = match PairForm::new(true, reply) {
        PairForm::Nested if args.len() == 3 => PairForm::Nested,
        _ => PairForm::Flat,
    };
    let head = |reply: &mut Reply<'_>, count| form.begin(count, reply);
    if !pop_members(cx, key, (direction, count), form, reply, head)? {
        reply.array(0);
    }
    Ok(())
}

/// Takes up to `count` members, at least one, from one end of the sorted set at `key` and replies
/// with them: after `head`, which is given their number, each with its score, in an array of its
/// own where `form` is nested. Returns whether there is a sorted set.
pub(super) fn pop_members(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    (direction, count): (Direction, usize),
    form: PairForm,
    reply: &mut Reply<'_>,
    head: impl FnOnce(&mut Reply<'_>, usize),
) -> Result<bool, WrongType> {
    cx.view.name_event(if direction == Direction::Up { "zpopmin" } else { "zpopmax" });
    let popped = cx.view.pop_scored(key, direction, count, |set, first, count| {
        head(reply, count);
        let start = if direction == Direction::Up { first } else { first + count - 1 };
        set.for_each(start, count, direction, |member, score| {
            form.write_scored(member, score, reply);
        });
    })?;
    Ok(popped.is_some())
}
