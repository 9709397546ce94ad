//! RESET: a session as it began.

use base::DatabaseIndex;
use resp::Protocol;

use crate::handler::session::Replies;
use crate::prelude::*;

pub(super) static RESET: Command = Command {
    name: "reset",
    summary: "Makes the session what it was when it began, save for its library name.",
    since: "6.2.0",
    group: Group::Connection,
    arity: Arity::exactly(1),
    flags: Flags::NOSCRIPT
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::FAST)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY)
        .with(Flags::UNQUEUED),
    example: "> SELECT 1\nOK\n> RESET\nRESET\n> CLIENT GETNAME\n(nil)",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let session = &mut *cx.session;
    session.transaction = None;
    session.database = DatabaseIndex(0);
    session.protocol = Protocol::Resp2;
    session.authenticated = !cx.host.requires_password();
    session.names.set_session(b"");
    // A reply that was to be skipped is not wanted now either.
    if session.replies != Replies::Skip {
        session.replies = Replies::On;
    }
    session.no_evict = false;
    session.no_touch = false;
    session.is_monitor = false;
    reply.set_protocol(Protocol::Resp2);
    reply.simple("RESET");
    Ok(Next::Unwatch)
}
