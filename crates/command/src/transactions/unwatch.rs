//! UNWATCH: forgets the watched keys.

use crate::prelude::*;

pub(super) static UNWATCH: Command = Command {
    name: "unwatch",
    summary: "Forgets all watched keys.",
    since: "2.2.0",
    group: Group::Transactions,
    arity: Arity::exactly(1),
    flags: Flags::NOSCRIPT
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::FAST)
        .with(Flags::ALLOW_BUSY),
    example: "> WATCH lake\nOK\n> UNWATCH\nOK",
    handler: Handler::Session(|_, _, reply| {
        reply.ok();
        Ok(Next::Unwatch)
    }),
    ..Command::DEFAULT
};
