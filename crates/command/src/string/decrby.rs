//! DECRBY: arithmetic on the integer at a key.

use super::counter;
use crate::prelude::*;

const WOULD_OVERFLOW: CommandError = CommandError::Fixed("ERR decrement would overflow");

pub(super) static DECRBY: Command = Command {
    name: "decrby",
    summary: "Takes from the integer at a key and returns the difference.",
    since: "1.0.0",
    group: Group::String,
    arity: Arity::exactly(3),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::integer("decrement").within(-1000, 1000)],
    example: "> DECRBY visits 5\n(integer) -5",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let delta = args.integer(2)?.checked_neg().ok_or(WOULD_OVERFLOW)?;
    counter::add(cx, args, reply, delta)
}
