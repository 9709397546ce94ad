//! MULTI: begins a transaction.

use crate::prelude::*;

const NESTED: CommandError = CommandError::Fixed("ERR MULTI calls can not be nested");

pub(super) static MULTI: Command = Command {
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
    note: "The queue takes at most 1 GiB. A request that would not fit is refused with \
           `ERR the queue of this transaction is full`, and EXEC refuses after it.",
    example: "> MULTI\nOK\n> SET lake deep\nQUEUED\n> EXEC\n1) OK",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    if cx.session.is_queueing() {
        return Err(NESTED.into());
    }
    cx.session.begin_transaction();
    reply.ok();
    Ok(Next::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::session::TRANSACTION_BYTES_MAX;

    #[test]
    fn note_tells_the_limit_and_its_refusal() {
        let text = CommandError::TransactionTooLarge.text().into_owned();
        assert!(MULTI.note.contains(&*String::from_utf8_lossy(&text)));
        assert!(MULTI.note.contains(&format!("{} GiB", TRANSACTION_BYTES_MAX >> 30)));
        assert_eq!(TRANSACTION_BYTES_MAX % (1 << 30), 0);
    }
}
