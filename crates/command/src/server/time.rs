//! TIME: what the server takes for now.

use crate::prelude::*;

/// The row.
pub static TIME: Command = Command {
    name: "time",
    summary: "Returns the time: Unix seconds, and the microseconds of the second underway.",
    since: "2.6.0",
    group: Group::Server,
    arity: Arity::exactly(1),
    flags: Flags::LOADING.with(Flags::STALE).with(Flags::FAST),
    note: "The time is the one by which keys expire: that of the batch which the request came in, \
        in whole milliseconds.",
    tips: &["nondeterministic_output"],
    example: "> TIME\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, CommandError> {
    let milliseconds = cx.now.0;
    reply.array(2);
    reply.bulk_integer(milliseconds / 1000);
    reply.bulk_integer(milliseconds % 1000 * 1000);
    Ok(Next::Done)
}
