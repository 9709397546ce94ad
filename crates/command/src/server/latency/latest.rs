//! LATENCY LATEST: the latest spike of each event.

use crate::prelude::*;

pub(super) static LATEST: Command = Command {
    name: "latency|latest",
    summary: "Returns the latest spike of each event that had any.",
    since: "2.8.13",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    example: "> LATENCY LATEST\n(empty array)",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let all = cx.host.latency_series();
    reply.array(all.len());
    for series in all {
        let (time_s, milliseconds) = *series.samples.last().expect("a series is not empty");
        reply.array(4);
        reply.bulk(series.event.name());
        reply.integer(time_s);
        reply.integer(milliseconds as i64);
        reply.integer(series.milliseconds_max as i64);
    }
    Ok(Next::Done)
}
