//! HMSET: sets fields of a hash.

use super::hset::HSET;
use crate::prelude::*;

pub(super) static HMSET: Command = Command {
    name: "hmset",
    summary: "Sets fields of a hash.",
    deprecated: Some(("4.0.0", "`HSET` with multiple field-value pairs")),
    example: "> HMSET lake depth 12 colour blue\nOK\n> HGET lake depth\n\"12\"",
    history: &[],
    handler: Handler::Write(run),
    ..HSET
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(&HMSET).into());
    }
    cx.view.set_fields(args.key(0), args.from(2))?;
    reply.ok();
    Ok(())
}
