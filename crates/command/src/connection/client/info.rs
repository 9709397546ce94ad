//! CLIENT INFO: what is known of the session.

use crate::prelude::*;

pub(super) static INFO: Command = Command {
    name: "client|info",
    summary: "Returns what the server knows of the session, as in CLIENT LIST.",
    since: "6.2.0",
    group: Group::Connection,
    arity: Arity::exactly(2),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    tips: &["nondeterministic_output"],
    example: "> CLIENT INFO\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    // Without a network there is nothing to tell of the connection.
    let known = cx.host.clients().ok().and_then(|clients| clients.one(cx.session.id));
    let mut info = known.unwrap_or_default();
    cx.describe(args, &mut info);
    reply.verbatim(*b"txt", format!("{info}\n"));
    Ok(Next::Done)
}
