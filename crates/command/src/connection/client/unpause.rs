//! CLIENT UNPAUSE: ends a pause.

use crate::prelude::*;

pub(super) static UNPAUSE: Command = Command {
    name: "client|unpause",
    summary: "Lets go on what CLIENT PAUSE made wait.",
    since: "6.2.0",
    complexity: "O(N), N being the number of sessions that wait",
    group: Group::Connection,
    arity: Arity::exactly(2),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    example: "> CLIENT UNPAUSE\nOK",
    handler: Handler::Session(|cx, _, reply| {
        cx.host.clients()?.resume();
        reply.ok();
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
