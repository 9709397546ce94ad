//! BGREWRITEAOF: refused, as nothing can be saved yet.

use crate::prelude::*;

pub(super) static BGREWRITEAOF: Command = Command {
    name: "bgrewriteaof",
    summary: "Writes the append-only file anew in the background.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(1),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING),
    note: "Refused: nothing can be saved yet.",
    example: "> BGREWRITEAOF\n(error) ERR nothing can be saved: all data are in memory only",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(_: &mut SessionContext<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<Next, Unfinished> {
    Err(CommandError::NOTHING_SAVED.into())
}
