//! MULTI: begins a transaction.

use crate::prelude::*;
use crate::session::Transaction;

const NESTED: CommandError = CommandError::Fixed("ERR MULTI calls can not be nested");

/// The row.
pub static MULTI: Command = Command {
    name: "multi",
    summary: "Begins a transaction: what follows is queued until EXEC.",
    since: "1.2.0",
    group: Group::Transactions,
    arity: Arity::exactly(1),
    flags: Flags::NOSCRIPT
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::FAST)
        .with(Flags::ALLOW_BUSY)
        .with(Flags::UNQUEUED),
    example: "> MULTI\nOK\n> SET lake deep\nQUEUED\n> EXEC\n1) OK",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, CommandError> {
    if cx.session.is_queueing() {
        return Err(NESTED);
    }
    cx.session.transaction = Some(Transaction::default());
    reply.ok();
    Ok(Next::Done)
}
