//! INCRBY: arithmetic on the integer at a key.

use super::counter;
use crate::prelude::*;

pub(super) static INCRBY: Command = Command {
    name: "incrby",
    summary: "Adds to the integer at a key and returns the sum.",
    since: "1.0.0",
    group: Group::String,
    arity: Arity::exactly(3),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::integer("increment").within(-1000, 1000)],
    example: "> INCRBY visits 5\n(integer) 5",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    counter::add(cx, args, reply, args.integer(2)?)
}
