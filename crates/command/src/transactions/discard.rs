//! DISCARD: gives up a transaction.

use crate::prelude::*;

const NO_MULTI: CommandError = CommandError::Fixed("ERR DISCARD without MULTI");

pub(super) static DISCARD: Command = Command {
    name: "discard",
    summary: "Forgets all that was queued since MULTI, and the watched keys.",
    since: "2.0.0",
    complexity: "O(N), N being the number of queued commands",
    group: Group::Transactions,
    arity: Arity::exactly(1),
    flags: Flags::NOSCRIPT
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::FAST)
        .with(Flags::ALLOW_BUSY)
        .with(Flags::UNQUEUED),
    example: "> MULTI\nOK\n> SET lake deep\nQUEUED\n> DISCARD\nOK\n> GET lake\n(nil)",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    if cx.session.transaction.take().is_none() {
        return Err(NO_MULTI.into());
    }
    reply.ok();
    Ok(Next::Unwatch)
}
