//! LATENCY: what took long, and how long commands take.

mod doctor;
mod graph;
mod histogram;
mod history;
mod latest;
mod reset;

use crate::host::observe::LatencySeries;
use crate::prelude::*;
use crate::table::help;

pub(super) static LATENCY: Command = Command {
    name: "latency",
    summary: "Tells what took long, and how long commands take.",
    since: "2.8.13",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[
        &doctor::DOCTOR,
        &graph::GRAPH,
        &HELP,
        &histogram::HISTOGRAM,
        &history::HISTORY,
        &latest::LATEST,
        &reset::RESET,
    ],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "latency|help",
    since: "2.8.13",
    group: Group::Server,
    example: "> LATENCY HELP\n...",
    ..help::ROW
};

/// Returns the spikes of the event called `name`, where there are any.
fn series_of(cx: &SessionContext<'_>, name: &[u8]) -> Option<LatencySeries> {
    let mut series = cx.host.latency_series().into_iter();
    series.find(|series| series.event.name().as_bytes() == name)
}
