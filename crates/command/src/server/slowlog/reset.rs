//! SLOWLOG RESET: no entries.

use crate::prelude::*;

pub(super) static RESET: Command = Command {
    name: "slowlog|reset",
    summary: "Empties the slow log.",
    since: "2.2.12",
    complexity: "O(N), N being the number of entries",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::ADMIN.with(Flags::LOADING).with(Flags::STALE),
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    example: "> SLOWLOG RESET\nOK",
    handler: Handler::Session(|cx, _, reply| {
        cx.host.reset_slow_log();
        reply.ok();
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
