//! SAVE, BGSAVE and BGREWRITEAOF: the dataset to its file; there is no append-only file to rewrite.

use crate::host::SaveRefusal;
use crate::prelude::*;

const RUNS: CommandError = CommandError::Fixed("ERR Background save already in progress");
/// Without a reason, as in Redis: it is in the log.
const FAILED: CommandError = CommandError::Fixed("ERR");

pub(super) static SAVE: Command = Command {
    name: "save",
    summary: "Saves the dataset and waits until it is done.",
    since: "1.0.0",
    complexity: "O(N), N being the number of keys",
    group: Group::Server,
    arity: Arity::exactly(1),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING).with(Flags::NO_MULTI),
    note: "Only this connection, and others of its worker, wait: the file has the dataset of a \
           moment after the request, and others go on to read and write.",
    example: "> SAVE\nOK",
    handler: Handler::Session(|cx, _, reply| {
        cx.host.persistence()?.save().map_err(error_of)?;
        reply.ok();
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};

pub(super) static BGSAVE: Command = Command {
    name: "bgsave",
    summary: "Saves the dataset in the background.",
    complexity: "O(1)",
    arity: Arity::at_least(1),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING),
    args: &[Arg::word("schedule", "SCHEDULE").optional().since("3.2.2")],
    history: &[("3.2.2", "Added the `SCHEDULE` option.")],
    note: "A thread does it, no other process. A flush of a database has it begin anew.",
    example: "> BGSAVE\nBackground saving started",
    handler: Handler::Session(|cx, args, reply| {
        if args.len() > 2 || args.from(1).any(|option| !option.eq_ignore_ascii_case(b"SCHEDULE")) {
            return Err(CommandError::Syntax.into());
        }
        cx.host.persistence()?.save_later().map_err(error_of)?;
        reply.simple("Background saving started");
        Ok(Next::Done)
    }),
    ..SAVE
};

pub(super) static BGREWRITEAOF: Command = Command {
    name: "bgrewriteaof",
    summary: "Writes the append-only file anew in the background.",
    complexity: "O(1)",
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING),
    note: "Refused: there is no append-only file.",
    example: "> BGREWRITEAOF\n(error) ERR nothing can be saved: all data are in memory only",
    handler: Handler::Session(|_, _, _| Err(CommandError::NOTHING_SAVED.into())),
    ..SAVE
};

fn error_of(refusal: SaveRefusal) -> CommandError {
    match refusal {
        SaveRefusal::Runs => RUNS,
        SaveRefusal::Failed => FAILED,
    }
}
