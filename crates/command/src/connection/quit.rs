//! QUIT: closes the session.

use crate::prelude::*;

pub(super) static QUIT: Command = Command {
    name: "quit",
    summary: "Closes the session once its replies are sent.",
    since: "1.0.0",
    group: Group::Connection,
    arity: Arity::at_least(1),
    flags: Flags::NOSCRIPT
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::FAST)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY)
        .with(Flags::UNQUEUED),
    deprecated: Some(("7.2.0", "just closing the connection")),
    example: "> QUIT\nOK",
    handler: Handler::Session(|_, _, reply| {
        reply.ok();
        Ok(Next::Close)
    }),
    ..Command::DEFAULT
};
