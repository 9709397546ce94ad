//! TIME: what the server takes for now.

use crate::prelude::*;

pub(super) static TIME: Command = Command {
    name: "time",
    summary: "Returns the time: Unix seconds, and the microseconds of the second underway.",
    since: "2.6.0",
    group: Group::Server,
    arity: Arity::exactly(1),
    flags: Flags::LOADING.with(Flags::STALE).with(Flags::FAST),
    tips: &["nondeterministic_output"],
    example: "> TIME\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let microseconds = cx.host.time_us(cx.now);
    reply.array(2);
    reply.bulk_integer(microseconds / 1_000_000);
    reply.bulk_integer(microseconds % 1_000_000);
    Ok(Next::Done)
}
