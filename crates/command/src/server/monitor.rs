//! MONITOR: the session is shown what all sessions do.

use crate::prelude::*;

const IN_TRANSACTION: CommandError =
    CommandError::Fixed("ERR MONITOR isn't allowed for DENY BLOCKING client");

pub(super) static MONITOR: Command = Command {
    name: "monitor",
    summary: "Shows the session each command that runs, of all sessions, until RESET.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(1),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    example: "> MONITOR\nOK",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    if cx.session.is_monitor {
        return Ok(Next::Done);
    }
    if cx.session.executing.is_some() {
        return Err(IN_TRANSACTION.into());
    }
    cx.host.clients()?;
    cx.session.is_monitor = true;
    reply.ok();
    Ok(Next::Done)
}
