//! LATENCY HISTOGRAM: how long commands take.

use crate::host::observe::CommandTimes;
use crate::prelude::*;

pub(super) static HISTOGRAM: Command = Command {
    name: "latency|histogram",
    summary: "Returns how many calls of commands took at most how long.",
    since: "7.0.0",
    complexity: "O(N), N being the number of commands that are shown",
    group: Group::Server,
    arity: Arity::at_least(2),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::string("command").among(&["get", "set", "config"]).optional().multiple()],
    tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
    example: "> LATENCY HISTOGRAM nothing\n(empty array)",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let all = cx.host.command_times();
    let chosen: Vec<&CommandTimes> = match args.len() {
        2 => all.iter().collect(),
        _ => {
            let named = |name| all.iter().filter(move |times| is_named(times.command, name));
            args.from(2).flat_map(named).collect()
        }
    };
    reply.map(chosen.len());
    for times in chosen {
        reply.bulk(times.command);
        reply.map(2);
        reply.bulk("calls");
        reply.integer(times.calls as i64);
        reply.bulk("histogram_usec");
        reply.map(times.steps.len());
        for (microseconds, calls) in &times.steps {
            reply.integer(*microseconds as i64);
            reply.integer(*calls as i64);
        }
    }
    Ok(Next::Done)
}

/// Returns whether `name`, in any case, is that of `command` or of its container.
fn is_named(command: &str, name: &[u8]) -> bool {
    let container = command.split_once('|').map_or(command, |(container, _)| container);
    [command, container].iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
}
