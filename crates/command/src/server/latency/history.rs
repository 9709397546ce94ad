//! LATENCY HISTORY: the spikes of one event.

use super::graph::GRAPH;
use super::series_of;
use crate::prelude::*;

pub(super) static HISTORY: Command = Command {
    name: "latency|history",
    summary: "Returns the spikes of an event, the oldest first.",
    example: "> LATENCY HISTORY command\n(empty array)",
    handler: Handler::Session(run),
    ..GRAPH
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let samples = series_of(cx, args.at(2)).map_or_else(Vec::new, |series| series.samples);
    reply.array(samples.len());
    for (time_s, milliseconds) in samples {
        reply.array(2);
        reply.integer(time_s);
        reply.integer(milliseconds as i64);
    }
    Ok(Next::Done)
}
