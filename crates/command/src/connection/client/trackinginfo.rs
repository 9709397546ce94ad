//! CLIENT TRACKINGINFO: how the session tracks keys.

use super::getredir::NO_REDIRECT;
use crate::prelude::*;

pub(super) static TRACKINGINFO: Command = Command {
    name: "client|trackinginfo",
    summary: "Returns that the session tracks no keys.",
    since: "6.2.0",
    group: Group::Connection,
    arity: Arity::exactly(2),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    example: "> CLIENT TRACKINGINFO\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(_: &mut SessionContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Unfinished> {
    reply.map(3);
    reply.bulk("flags");
    reply.set(1);
    reply.bulk("off");
    reply.bulk("redirect");
    reply.integer(NO_REDIRECT);
    reply.bulk("prefixes");
    reply.array(0);
    Ok(Next::Done)
}
