//! CLIENT SETNAME: a name for the session.

use crate::handler::client_name::check_name;
use crate::prelude::*;

pub(super) static SETNAME: Command = Command {
    name: "client|setname",
    summary: "Gives the session a name that CLIENT LIST shows.",
    since: "2.6.9",
    group: Group::Connection,
    arity: Arity::exactly(3),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::string("connection-name").among(&["lake", "hill", ""])],
    example: "> CLIENT SETNAME lake\nOK",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    check_name(args.at(2))?;
    cx.session.names.set_session(args.at(2));
    reply.ok();
    Ok(Next::Done)
}
