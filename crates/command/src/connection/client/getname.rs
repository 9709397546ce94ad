//! CLIENT GETNAME: the name of the session.

use crate::prelude::*;

pub(super) static GETNAME: Command = Command {
    name: "client|getname",
    summary: "Returns the name that CLIENT SETNAME gave the session.",
    since: "2.6.9",
    group: Group::Connection,
    arity: Arity::exactly(2),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    example: "> CLIENT GETNAME\n(nil)\n> CLIENT SETNAME lake\nOK\n> CLIENT GETNAME\n\"lake\"",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    match cx.session.names.session() {
        [] => reply.null(),
        name => reply.bulk(name),
    }
    Ok(Next::Done)
}
