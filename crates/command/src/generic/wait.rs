//! WAIT: until replicas have the writes of the session.

use crate::parse::timeout;
use crate::prelude::*;

pub(super) static WAIT: Command = Command {
    name: "wait",
    summary: "Waits until so many replicas have what the session wrote; there are none.",
    since: "3.0.0",
    group: Group::Generic,
    arity: Arity::exactly(3),
    flags: Flags::BLOCKING.with(Flags::OF_SESSION),
    args: &[Arg::integer("numreplicas").within(-1, 0), Arg::integer("timeout").within(1, 2)],
    note: "There are no replicas: more than 0 of them are waited for in vain.",
    tips: &["request_policy:all_shards", "response_policy:agg_min"],
    example: "> WAIT 0 100\n(integer) 0",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let wanted = args.integer(1)?;
    let timeout = timeout::milliseconds(args, 2, cx.now)?;
    if wanted <= 0 || cx.session.executing.is_some() {
        none_has_it(reply);
        return Ok(Next::Done);
    }
    Err(Wait::new(timeout, none_has_it, 0).into())
}

/// Replies with the number of replicas that have the writes.
fn none_has_it(reply: &mut Reply<'_>) {
    reply.integer(0);
}
