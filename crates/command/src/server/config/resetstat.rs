//! CONFIG RESETSTAT: counters at zero.

use crate::prelude::*;

pub(super) static RESETSTAT: Command = Command {
    name: "config|resetstat",
    summary: "Sets the counters of INFO to zero.",
    since: "2.0.0",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::ADMIN
        .with(Flags::NOSCRIPT)
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::UNGUARDED),
    example: "> CONFIG RESETSTAT\nOK",
    handler: Handler::Session(|cx, _, reply| {
        cx.host.reset_statistics();
        reply.ok();
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
