//! PURGELOGSTO: removes files of the log, as in Pika.

use std::time::Duration;

use super::feed::ask;
use crate::host::FeedQuestion;
use crate::prelude::*;

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
        ask(cx, FeedQuestion::Purge { name: args.at(1).into() }, Duration::ZERO)
    }),
    ..Command::DEFAULT
};
