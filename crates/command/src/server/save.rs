//! SAVE and BGSAVE: the dataset to its file; BGREWRITEAOF: the log begins anew behind a snapshot.

use crate::host::{RewriteStart, SaveRefusal};
use crate::prelude::*;

const RUNS: CommandError = CommandError::Fixed("ERR Background save already in progress");
const REWRITES: CommandError =
    CommandError::Fixed("ERR Background append only file rewriting already in progress");
const NO_LOG: CommandError =
    CommandError::Fixed("ERR there is no append-only file to rewrite: appendonly is no");
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
    arity: Arity::exactly(1),
    note: "A snapshot is written to the folder of the log, and what of the log it has is removed. \
           Refused without a log (`appendonly no`).",
    example: "> BGREWRITEAOF\nBackground append only file rewriting started",
    handler: Handler::Session(|cx, _, reply| {
        let started = cx.host.persistence()?.rewrite_log().map_err(|refusal| match refusal {
            SaveRefusal::Runs => REWRITES,
            other => error_of(other),
        })?;
        reply.simple(match started {
            RewriteStart::Started => "Background append only file rewriting started",
            RewriteStart::Scheduled => "Background append only file rewriting scheduled",
        });
        Ok(Next::Done)
    }),
    ..SAVE
};

fn error_of(refusal: SaveRefusal) -> CommandError {
    match refusal {
        SaveRefusal::Runs => RUNS,
        SaveRefusal::Failed => FAILED,
        SaveRefusal::NoLog => NO_LOG,
    }
}
