//! SAVE: refused, as nothing can be saved yet.

use crate::prelude::*;

pub(super) static SAVE: Command = Command {
    name: "save",
    summary: "Saves the dataset and waits until it is done.",
    since: "1.0.0",
    complexity: "O(N), N being the number of keys",
    group: Group::Server,
    arity: Arity::exactly(1),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING).with(Flags::NO_MULTI),
    note: "Refused: nothing can be saved yet.",
    example: "> SAVE\n(error) ERR nothing can be saved: all data are in memory only",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(_: &mut SessionContext<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<Next, Unfinished> {
    Err(CommandError::NOTHING_SAVED.into())
}
