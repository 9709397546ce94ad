//! INCR, INCRBY, DECR and DECRBY: arithmetic on the integer at a key.

use base::number::parse_i64;
use keyspace::Expiry;
use resp::IntegerText;

use crate::prelude::*;

const WOULD_OVERFLOW: CommandError = CommandError::Fixed("ERR decrement would overflow");

pub(super) static INCR: Command = Command {
    name: "incr",
    summary: "Adds one to the integer at a key and returns the sum.",
    since: "1.0.0",
    group: Group::String,
    arity: Arity::exactly(2),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[Arg::key("key")],
    example: "> INCR visits\n(integer) 1\n> INCR visits\n(integer) 2",
    handler: Handler::Write(|cx, args, reply| add(cx, args, reply, 1)),
    ..Command::DEFAULT
};

pub(super) static INCRBY: Command = Command {
    name: "incrby",
    summary: "Adds to the integer at a key and returns the sum.",
    arity: Arity::exactly(3),
    args: &[Arg::key("key"), Arg::integer("increment").within(-1000, 1000)],
    example: "> INCRBY visits 5\n(integer) 5",
    handler: Handler::Write(|cx, args, reply| add(cx, args, reply, args.integer(2)?)),
    ..INCR
};

pub(super) static DECR: Command = Command {
    name: "decr",
    summary: "Takes one from the integer at a key and returns the difference.",
    example: "> DECR visits\n(integer) -1",
    handler: Handler::Write(|cx, args, reply| add(cx, args, reply, -1)),
    ..INCR
};

pub(super) static DECRBY: Command = Command {
    name: "decrby",
    summary: "Takes from the integer at a key and returns the difference.",
    args: &[Arg::key("key"), Arg::integer("decrement").within(-1000, 1000)],
    example: "> DECRBY visits 5\n(integer) -5",
    handler: Handler::Write(|cx, args, reply| {
        let delta = args.integer(2)?.checked_neg().ok_or(WOULD_OVERFLOW)?;
        add(cx, args, reply, delta)
    }),
    ..INCRBY
};

/// Adds `delta` to the integer at the request's key, which is 0 where absent, and replies with the
/// sum.
///
/// # Errors
/// When the value is no integer, or the sum is beyond 64 bits.
fn add(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    delta: i64,
) -> Result<(), Unfinished> {
    let key = args.key(0);
    let value = match cx.view.string(key)? {
        Some(text) => parse_i64(text).ok_or(CommandError::NotInteger)?,
        None => 0,
    };
    let sum = value.checked_add(delta).ok_or(CommandError::OVERFLOW)?;
    cx.view.name_event("incrby");
    cx.view.set(key, IntegerText::new(sum).as_bytes(), Expiry::Keep)?;
    reply.integer(sum);
    Ok(())
}
