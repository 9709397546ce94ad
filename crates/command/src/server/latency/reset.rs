//! LATENCY RESET: no spikes.

use crate::host::observe::LatencyEvent;
use crate::prelude::*;

pub(super) static RESET: Command = Command {
    name: "latency|reset",
    summary: "Forgets the spikes of the named events, or of all.",
    since: "2.8.13",
    group: Group::Server,
    arity: Arity::at_least(2),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::string("event").among(&["command", "expire-cycle"]).optional().multiple()],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    example: "> LATENCY RESET\n(integer) 0",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let events: Vec<LatencyEvent> = match args.len() {
        2 => LatencyEvent::ALL.to_vec(),
        _ => args.from(2).filter_map(LatencyEvent::named).collect(),
    };
    reply.integer(cx.host.reset_latency(&events) as i64);
    Ok(Next::Done)
}
