//! PURGELOGSTO: removes files of the log, as in Pika.

use std::time::Duration;

use super::feed::ask;
use crate::host::FeedQuestion;
use crate::prelude::*;

/// Longer than the name of any file of a log.
const NAME_BYTES_MAX: usize = 32;
const NO_FILE: CommandError =
    CommandError::Fixed("ERR there is no file of that name in the log: FEED LOGS lists them");

pub(super) static PURGELOGSTO: Command = Command {
    name: "purgelogsto",
    summary: "Removes the files of the log before one of them.",
    since: "7.2.0",
    group: Group::Server,
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_MULTI),
    complexity: "O(N), N being the number of files removed",
    arity: Arity::exactly(2),
    args: &[Arg::string("file")],
    note: "As in Pika, with names as FEED LOGS lists them. Refused where a restart or a group of \
           FEED needs one of them; snapshots that the log does not reach back to any more go with \
           them.",
    example: "> PURGELOGSTO 00000000000067100672.log\n...",
    handler: Handler::Session(|cx, args, _| {
        if args.at(1).len() > NAME_BYTES_MAX {
            return Err(NO_FILE.into());
        }
        ask(cx, FeedQuestion::Purge { name: args.at(1).into() }, Duration::ZERO)
    }),
    ..Command::DEFAULT
};
