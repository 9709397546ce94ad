//! DECR: arithmetic on the integer at a key.

use super::counter;
use crate::prelude::*;

pub(super) static DECR: Command = Command {
    name: "decr",
    summary: "Takes one from the integer at a key and returns the difference.",
    since: "1.0.0",
    group: Group::String,
    arity: Arity::exactly(2),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[Arg::key("key")],
    example: "> DECR visits\n(integer) -1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    counter::add(cx, args, reply, -1)
}
