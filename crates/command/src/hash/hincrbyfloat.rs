//! HINCRBYFLOAT: adds to the number in a field.

use base::extended::Extended;
use collections::Hash;
use keyspace::FieldTime;

use crate::prelude::*;

const NOT_A_NUMBER: CommandError = CommandError::Fixed("ERR value is NaN or Infinity");
const NOT_A_FLOAT: CommandError = CommandError::Fixed("ERR hash value is not a float");
const NOT_FINITE: CommandError = CommandError::Fixed("ERR increment would produce NaN or Infinity");

pub(super) static HINCRBYFLOAT: Command = Command {
    name: "hincrbyfloat",
    summary: "Adds to the number in a field of a hash, which is 0 where absent.",
    since: "2.6.0",
    group: Group::Hash,
    arity: Arity::exactly(4),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::part("field"), Arg::double("increment")],
    example: "> HINCRBYFLOAT lake depth 12.5\n\"12.5\"\n\
        > HINCRBYFLOAT lake depth -2\n\"10.5\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let increment = Extended::parse(args.at(3)).ok_or(CommandError::NotFloat)?;
    if !increment.is_finite() {
        return Err(NOT_A_NUMBER.into());
    }
    let (key, field) = (args.key(0), args.at(2));
    let view = &cx.view;
    let hash = view.collection::<Hash>(key)?;
    let value = match hash.and_then(|hash| hash.get(field, view.rules(key))) {
        Some(value) => value.with_bytes(Extended::parse).ok_or(NOT_A_FLOAT)?,
        None => Extended::ZERO,
    };
    let sum = value.checked_add(increment).filter(|sum| sum.is_finite()).ok_or(NOT_FINITE)?;
    let text = sum.to_text();
    // As the result: whoever applies the effect need not add as we do.
    cx.view.name_event("hincrbyfloat");
    cx.view.set_timed_fields(key, [field, text.as_bytes()].into_iter(), FieldTime::Keep)?;
    reply.bulk(text);
    Ok(())
}
