//! LMPOP and BLMPOP: take elements from an end of the first list that is there; wait for one.

use collections::End;
use keyspace::ValueType;

use super::end_at;
use super::lpop::reply_end;
use crate::parse::timeout;
use crate::prelude::*;

const NO_KEYS: CommandError = CommandError::Fixed("ERR numkeys should be greater than 0");
const NO_COUNT: CommandError = CommandError::Fixed("ERR count should be greater than 0");

const KEYS: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);
const WHERE: Arg = Arg::one_of("where", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]);
const COUNT: Arg = Arg::integer("count").token("COUNT").within(1, 5).optional();

pub(super) static LMPOP: Command = Command {
    name: "lmpop",
    summary: "Takes elements from an end of the first list that is there, and returns them.",
    since: "7.0.0",
    complexity: "O(N+M), N being the number of keys, M the elements that are taken",
    group: Group::List,
    arity: Arity::at_least(4),
    keys: &[KeySpec::counted_at(1, KEYS)],
    args: &[Arg::count_of_next("numkeys"), Arg::key("key").multiple(), WHERE, COUNT],
    example: "> RPUSH boats oar mast keel\n(integer) 3\n\
        > LMPOP 2 ships boats RIGHT COUNT 2\n\
        1) \"boats\"\n2) 1) \"keel\"\n   2) \"mast\"\n\
        > LMPOP 1 ships LEFT\n(nil)",
    handler: Handler::Write(|cx, args, reply| {
        let (end, count) = parse(args, 1)?;
        if !pop_first(cx, args, (end, count), reply)? {
            reply.null_array();
        }
        Ok(())
    }),
    ..Command::DEFAULT
};

pub(super) static BLMPOP: Command = Command {
    name: "blmpop",
    summary: "Takes elements from an end of the first list that is there; waits for one.",
    arity: Arity::at_least(5),
    flags: Flags::BLOCKING,
    keys: &[KeySpec::counted_at(2, KEYS)],
    args: &[
        Arg::double("timeout").only_within(1, 2),
        Arg::count_of_next("numkeys"),
        Arg::key("key").multiple(),
        WHERE,
        COUNT,
    ],
    example: "> RPUSH boats oar mast keel\n(integer) 3\n\
        > BLMPOP 0.5 2 ships boats LEFT\n1) \"boats\"\n2) 1) \"oar\"\n\
        > BLMPOP 0.01 1 ships LEFT\n(nil)",
    handler: Handler::Write(|cx, args, reply| {
        let options = parse(args, 2)?;
        let timeout = timeout::seconds(args, 1, cx.now())?;
        if pop_first(cx, args, options, reply)? {
            return Ok(());
        }
        let wait = Wait::new(timeout, |reply| reply.null_array(), args.keys().len());
        Err(wait.of_type(ValueType::List).into())
    }),
    ..LMPOP
};

/// Returns the end and how many elements are asked for behind the keys, whose number is at
/// `count_index`.
fn parse(args: Args<'_>, count_index: usize) -> Result<(End, usize), CommandError> {
    let key_count = args.count(count_index).ok().filter(|count| *count > 0).ok_or(NO_KEYS)?;
    let end_index = key_count.saturating_add(count_index + 1);
    if end_index >= args.len() {
        return Err(CommandError::Syntax);
    }
    let end = end_at(args, end_index)?;
    let count = match args.len() - end_index - 1 {
        0 => 1,
        // The number is looked at before what is behind it.
        2.. if args.is(end_index + 1, "COUNT") => {
            args.count(end_index + 2).ok().filter(|count| *count > 0).ok_or(NO_COUNT)?
        }
        _ => return Err(CommandError::Syntax),
    };
    match args.len() - end_index - 1 {
        0 | 2 => Ok((end, count)),
        _ => Err(CommandError::Syntax),
    }
}

/// Takes up to `count` elements from `end` of the first list among the request's keys, and replies
/// with its name and with them; returns false, without a reply, where there is none. A key of
/// another type before it is an error; one behind it is not looked at.
fn pop_first(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    (end, count): (End, usize),
    reply: &mut Reply<'_>,
) -> Result<bool, Unfinished> {
    for key in args.keys() {
        let popped = cx.view.pop(key, end, count, |list, count| {
            reply.array(2);
            reply.bulk(key.bytes);
            reply.array(count);
            reply_end(list, end, count, reply);
        })?;
        if popped.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
