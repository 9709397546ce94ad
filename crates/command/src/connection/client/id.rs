//! CLIENT ID: the number of the session.

use crate::prelude::*;

pub(super) static ID: Command = Command {
    name: "client|id",
    summary: "Returns the number of the session.",
    since: "5.0.0",
    group: Group::Connection,
    arity: Arity::exactly(2),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    example: "> CLIENT ID\n...",
    handler: Handler::Session(|cx, _, reply| {
        reply.integer(cx.session.id as i64);
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
