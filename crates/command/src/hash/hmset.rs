//! HMSET: sets fields of a hash.

use crate::prelude::*;

/// The row.
pub static HMSET: Command = Command {
    name: "hmset",
    summary: "Sets fields of a hash.",
    since: "2.0.0",
    complexity: "O(N), N being the fields that are set",
    group: Group::Hash,
    arity: Arity::at_least(4),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::block("data", &[Arg::part("field"), Arg::string("value")]).multiple(),
    ],
    deprecated: Some(("4.0.0", "`HSET` with multiple field-value pairs")),
    example: "> HMSET lake depth 12 colour blue\nOK\n> HGET lake depth\n\"12\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(&HMSET));
    }
    cx.view.set_fields(args.key(0), args.from(2))?;
    reply.ok();
    Ok(())
}
