//! HINCRBY: adds to the integer in a field.

use base::number::parse_i64;
use collections::Hash;
use keyspace::FieldTime;
use resp::IntegerText;

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
    let view = &cx.view;
    let hash = view.collection::<Hash>(key)?;
    let value = match hash.and_then(|hash| hash.get(field, view.rules(key))) {
        Some(value) => value.with_bytes(parse_i64).ok_or(NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = value.checked_add(increment).ok_or(CommandError::OVERFLOW)?;
    // As the result: whoever applies the effect need not add.
    let text = IntegerText::new(sum);
    cx.view.name_event("hincrby");
    cx.view.set_timed_fields(key, [field, text.as_bytes()].into_iter(), FieldTime::Keep)?;
    reply.integer(sum);
    Ok(())
}
