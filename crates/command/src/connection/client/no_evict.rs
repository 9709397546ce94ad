//! CLIENT NO-EVICT: whether the session is kept when clients take too much memory.

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
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    cx.session.is_kept = switch(args, 2)?;
    reply.ok();
    Ok(Next::Done)
}
