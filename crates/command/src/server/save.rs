//! SAVE, BGSAVE and BGREWRITEAOF: refused, as no snapshot can be written yet.

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
    handler: Handler::Session(|_, _, _| Err(CommandError::NOTHING_SAVED.into())),
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
    example: "> BGSAVE\n(error) ERR nothing can be saved: all data are in memory only",
    handler: Handler::Session(|_, args, _| {
        if args.len() > 2 || args.from(1).any(|option| !option.eq_ignore_ascii_case(b"SCHEDULE")) {
            return Err(CommandError::Syntax.into());
        }
        Err(CommandError::NOTHING_SAVED.into())
    }),
    ..SAVE
};

pub(super) static BGREWRITEAOF: Command = Command {
    name: "bgrewriteaof",
    summary: "Writes the append-only file anew in the background.",
    complexity: "O(1)",
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING),
    note: "Refused: there is no snapshot yet that the file could begin with instead.",
    example: "> BGREWRITEAOF\n\
              (error) ERR the append-only file cannot be rewritten: there are no snapshots yet",
    handler: Handler::Session(|_, _, _| {
        let reason = "ERR the append-only file cannot be rewritten: there are no snapshots yet";
        Err(CommandError::Fixed(reason).into())
    }),
    ..SAVE
};
