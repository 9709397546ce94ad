//! BACKUP: the dataset of a moment, in a folder of its own, while the server serves.

use crate::host::{BackupOutcome, BackupRefusal};
use crate::prelude::*;
use crate::table::help;

const RUNS: CommandError = CommandError::Fixed("ERR Background save already in progress");

pub(super) static BACKUP: Command = Command {
    name: "backup",
    summary: "Copies the dataset into a folder while the server serves.",
    since: "7.2.0",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[&HELP, &STATUS, &TO],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "backup|help",
    since: "7.2.0",
    group: Group::Server,
    example: "> BACKUP HELP\n...",
    ..help::ROW
};

static TO: Command = Command {
    name: "backup|to",
    summary: "Begins to copy the dataset of this moment into a folder.",
    complexity: "O(1)",
    arity: Arity::exactly(3),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING).with(Flags::NO_MULTI),
    args: &[Arg::string("directory")],
    note: "A name without `/` is a folder in `backups` of `dir`, of which there may be 64; \
           any other is a path from `dir` on, which takes `enable-protected-configs`. The \
           folder is made, or is empty, and is not in that of the append-only file. A \
           thread makes it, writes the copy, makes it durable and reads it back; BACKUP \
           STATUS tells how that went. It has the form of the folder of an append-only \
           file, with the LSN of its moment: `forebay check` reads it, and a server starts \
           from it by `dir` and `appenddirname`.",
    example: "> BACKUP TO monday\nBackup started",
    handler: Handler::Session(|cx, args, reply| {
        let started = cx.host.persistence()?.back_up(cx.session, args.at(2));
        started.map_err(|refusal| match refusal {
            BackupRefusal::Runs => RUNS,
            BackupRefusal::Folder(reason) => CommandError::text_of(&[b"ERR ", reason.as_bytes()]),
        })?;
        reply.simple("Backup started");
        Ok(Next::Done)
    }),
    ..BACKUP_ROW
};

static STATUS: Command = Command {
    name: "backup|status",
    summary: "Tells of the last backup.",
    complexity: "O(1)",
    arity: Arity::exactly(2),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT),
    note: "Its state, `none`, `running`, `ok` or `failed`; its folder; the LSN that it stands for \
           and its bytes, once it is there; why it failed.",
    example: "> BACKUP STATUS\n...",
    handler: Handler::Session(|cx, _, reply| {
        let report = cx.host.persistence()?.backup_report();
        let (state, lsn, bytes, reason) = match &report.outcome {
            None if report.directory.is_empty() => ("none", 0, 0, ""),
            None => ("running", 0, 0, ""),
            Some(BackupOutcome::Written { lsn, bytes }) => ("ok", lsn.0, *bytes, ""),
            Some(BackupOutcome::Failed(reason)) => ("failed", 0, 0, reason.as_str()),
        };
        reply.map(5);
        reply.bulk("state");
        reply.bulk(state);
        reply.bulk("directory");
        reply.bulk(&report.directory);
        reply.bulk("lsn");
        reply.integer(lsn as i64);
        reply.bulk("bytes");
        reply.integer(bytes as i64);
        reply.bulk("error");
        reply.bulk(reason);
        Ok(Next::Done)
    }),
    ..BACKUP_ROW
};

/// What the subcommands have in common.
const BACKUP_ROW: Command = Command { since: "7.2.0", group: Group::Server, ..Command::DEFAULT };
