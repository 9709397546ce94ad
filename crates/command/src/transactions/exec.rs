//! EXEC: runs a transaction.

use crate::prelude::*;

const NO_MULTI: CommandError = CommandError::Fixed("ERR EXEC without MULTI");

pub(super) static EXEC: Command = Command {
    name: "exec",
    summary: "Runs all that was queued since MULTI, at one moment.",
    since: "1.2.0",
    complexity: "Depends on the queued commands",
    group: Group::Transactions,
    arity: Arity::exactly(1),
    flags: Flags::NOSCRIPT
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::SKIP_SLOWLOG)
        .with(Flags::UNQUEUED),
    example: "> MULTI\nOK\n> INCR visits\nQUEUED\n> EXEC\n1) (integer) 1",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(cx: &mut SessionContext<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<Next, Unfinished> {
    let transaction = cx.session.transaction.as_ref().ok_or(NO_MULTI)?;
    if transaction.is_broken {
        cx.session.transaction = None;
        return Err(CommandError::TRANSACTION_BROKEN.into());
    }
    Ok(Next::Exec)
}
