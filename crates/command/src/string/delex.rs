//! DELEX: removes a key, if its string compares with a given one as it is to.

use resp::RequestView;

use super::comparison::{Comparison, IFDEQ, IFDNE, IFEQ, IFNE};
use crate::prelude::*;

const UNKNOWN_CONDITION: CommandError =
    CommandError::Fixed("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
const NOT_STRING: CommandError =
    CommandError::Fixed("ERR Key should be of string type if conditions are specified");

pub(super) static DELEX: Command = Command {
    name: "delex",
    summary: "Removes a key, if its string or its digest is a given one, or is not.",
    since: "8.4.0",
    complexity: "O(N), N being the bytes of the string",
    group: Group::String,
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE).with(KeyFlags::VARIABLE_FLAGS))],
    key_flags: Some(key_flags),
    args: &[Arg::key("key"), Arg::one_of("condition", &[IFEQ, IFNE, IFDEQ, IFDNE]).optional()],
    note: "A command of Redis 8.4, which Redis 7.2 does not have.",
    example: "> SET lake mine\nOK\n\
        > DELEX lake IFEQ yours\n(integer) 0\n\
        > DELEX lake IFNE yours\n(integer) 1\n\
        > DELEX lake\n(integer) 0",
    is_timed_alone: true,
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let is_wanted = match args.len() {
        2 => true,
        4 => is_met(cx, args)?,
        _ => return Err(CommandError::WrongArity(&DELEX).into()),
    };
    let is_removed = is_wanted && cx.view.remove(key);
    reply.integer(i64::from(is_removed));
    Ok(())
}

/// Returns whether the key is there and meets the condition of the request. One that is absent is
/// looked at before the condition, as in Redis.
fn is_met(cx: &mut WriteContext<'_>, args: Args<'_>) -> Result<bool, Unfinished> {
    let key = args.key(0);
    if !cx.view.contains(key) {
        return Ok(false);
    }
    if cx.view.string_length(key).is_err() {
        return Err(NOT_STRING.into());
    }
    cx.own(args.keys())?;
    let value = cx.view.string(key)?.expect("it is there");
    let comparison = Comparison::named(args.at(2), args.at(3)).ok_or(UNKNOWN_CONDITION)?;
    Ok(comparison.holds(value)?)
}

/// Only a condition reads the key.
fn key_flags(request: RequestView<'_>) -> KeyFlags {
    match request.len() {
        ..=2 => KeyFlags::RM.with(KeyFlags::DELETE),
        _ => KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE),
    }
}
