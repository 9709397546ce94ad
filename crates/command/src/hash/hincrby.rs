//! HINCRBY: adds to the integer in a field.

use base::number::parse_i64;
use collections::Element;

use crate::prelude::*;

const NOT_AN_INTEGER: CommandError = CommandError::Fixed("ERR hash value is not an integer");

pub(super) static HINCRBY: Command = Command {
    name: "hincrby",
    summary: "Adds to the integer in a field of a hash, which is 0 where absent.",
    since: "2.0.0",
    group: Group::Hash,
    arity: Arity::exactly(4),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::part("field"), Arg::integer("increment").within(-1000, 1000)],
    example: "> HINCRBY lake depth 12\n(integer) 12\n> HINCRBY lake depth -2\n(integer) 10",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let increment = args.integer(3)?;
    let (key, field) = (args.key(0), args.at(2));
    cx.view.name_event("hincrby");
    let sum = cx.view.update_number(key, field, |value| {
        let value = match value {
            Some(Element::Integer(integer)) => integer,
            Some(value) => value.with_bytes(parse_i64).ok_or(NOT_AN_INTEGER)?,
            None => 0,
        };
        value.checked_add(increment).ok_or(CommandError::OVERFLOW)
    })??;
    reply.integer(sum);
    Ok(())
}
