//! INFO: the state of the server.

use crate::info_sections::InfoSections;
use crate::prelude::*;

/// The row.
pub static INFO: Command = Command {
    name: "info",
    summary: "Returns figures about the server, by section.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::at_least(1),
    flags: Flags::LOADING.with(Flags::STALE),
    categories: Categories::DANGEROUS,
    args: &[Arg::string("section")
        .among(&["server", "memory", "stats", "keyspace", "all"])
        .optional()
        .multiple()],
    history: &[("7.0.0", "Added support for taking multiple section arguments.")],
    note: "`latencystats` is empty: calls are not timed one by one. The times of `commandstats` \
           are estimated from one batch in 16, whose time counts for its last command. `clients` \
           lacks `client_recent_max_input_buffer` and `client_recent_max_output_buffer`.",
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    example: "> INFO server\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, CommandError> {
    let sections = InfoSections::new(args.from(1));
    reply.verbatim(*b"txt", cx.host.info(&sections));
    Ok(Next::Done)
}
