//! INCRBYFLOAT: arithmetic on the number at a key.

use base::extended::Extended;
use keyspace::Expiry;

use crate::prelude::*;

const NOT_FINITE: CommandError = CommandError::Fixed("ERR increment would produce NaN or Infinity");

pub(super) static INCRBYFLOAT: Command = Command {
    name: "incrbyfloat",
    summary: "Adds to the floating-point number at a key and returns the sum.",
    since: "2.6.0",
    group: Group::String,
    arity: Arity::exactly(3),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::double("increment")],
    example: "> INCRBYFLOAT level 10.5\n\"10.5\"\n> INCRBYFLOAT level -0.1\n\"10.4\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let value = match cx.view.string(key)? {
        Some(text) => Extended::parse(text).ok_or(CommandError::NotFloat)?,
        None => Extended::ZERO,
    };
    let increment = Extended::parse(args.at(2)).ok_or(CommandError::NotFloat)?;
    let sum = value.checked_add(increment).filter(|sum| sum.is_finite()).ok_or(NOT_FINITE)?;
    let text = sum.to_text();
    // As the result: whoever applies the effect need not add as we do.
    cx.view.name_event("incrbyfloat");
    cx.view.set_text(key, text.as_bytes(), Expiry::Keep)?;
    reply.bulk(text);
    Ok(())
}
