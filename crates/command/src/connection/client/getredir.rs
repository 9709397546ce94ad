//! CLIENT GETREDIR: who gets what the server would say of the keys that the session caches.

use crate::prelude::*;

/// What Redis says where tracking is off.
pub(super) const NO_REDIRECT: i64 = -1;

pub(super) static GETREDIR: Command = Command {
    name: "client|getredir",
    summary: "Returns -1: no session tracks keys.",
    since: "6.0.0",
    group: Group::Connection,
    arity: Arity::exactly(2),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    example: "> CLIENT GETREDIR\n(integer) -1",
    handler: Handler::Session(|_, _, reply| {
        reply.integer(NO_REDIRECT);
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
