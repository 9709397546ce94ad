//! FEED INFO, FEED LOGS: how far the stream reaches, and the files that have it.

use std::time::Duration;

use super::ask;
use crate::host::FeedQuestion;
use crate::prelude::*;

pub(super) static INFO: Command = Command {
    name: "feed|info",
    summary: "Tells how far the stream of changes reaches.",
    since: "7.2.0",
    complexity: "O(1)",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_MULTI),
    note: "Where it is read from, `log` or `memory` or `none`; the LSN behind which it begins, the \
           one up to which it can be read, which under `appendfsync always` and `everysec` is what \
           is durable, and the one of the last change; the numbers of groups and of sessions that \
           wait.",
    example: "> FEED INFO\n...",
    handler: Handler::Session(|cx, _, _| ask(cx, FeedQuestion::Info, Duration::ZERO)),
    ..Command::DEFAULT
};

pub(super) static LOGS: Command = Command {
    name: "feed|logs",
    summary: "Lists the files of the log.",
    complexity: "O(N), N being the number of files",
    note: "Of each: its name, the LSN that it begins behind, the bytes of the file, the time of \
           its first record in milliseconds (null without one), and who needs it: `restart`, \
           `group`, or nobody but history, which PURGELOGSTO removes.",
    example: "> FEED LOGS\n...",
    handler: Handler::Session(|cx, _, _| ask(cx, FeedQuestion::Logs, Duration::ZERO)),
    ..INFO
};
