//! CLIENT NO-EVICT and CLIENT NO-TOUCH: what the session is spared, and what it spares the keys.

use super::switch;
use crate::prelude::*;

pub(super) static NO_EVICT: Command = Command {
    name: "client|no-evict",
    summary: "Keeps the session when clients take too much memory, or no longer does.",
    since: "7.0.0",
    group: Group::Connection,
    arity: Arity::exactly(3),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")])],
    example: "> CLIENT NO-EVICT ON\nOK",
    handler: Handler::Session(|cx, args, reply| {
        cx.session.no_evict = switch(args, 2)?;
        reply.ok();
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};

pub(super) static NO_TOUCH: Command = Command {
    name: "client|no-touch",
    summary: "Lets what the session looks up not count as used, or count again.",
    since: "7.2.0",
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    example: "> CLIENT NO-TOUCH ON\nOK",
    handler: Handler::Session(|cx, args, reply| {
        cx.session.no_touch = switch(args, 2)?;
        reply.ok();
        Ok(Next::Done)
    }),
    ..NO_EVICT
};
