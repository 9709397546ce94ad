//! INFO: the state of the server.

use crate::host::info_sections::InfoSections;
use crate::prelude::*;

pub(super) static INFO: Command = Command {
    name: "info",
    summary: "Returns figures about the server, by section.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::at_least(1),
    flags: Flags::LOADING.with(Flags::STALE).with(Flags::UNGUARDED),
    categories: Categories::DANGEROUS,
    args: &[Arg::string("section")
        .among(&["server", "memory", "stats", "keyspace", "all"])
        .optional()
        .multiple()],
    history: &[("7.0.0", "Added support for taking multiple section arguments.")],
    note: "Brief commands that follow each other in one pipeline share the time that they take \
           together in `commandstats` and `latencystats`. What does not exist here (replicas, \
           scripts, forks, files) is shown as 0 or as Redis shows it where it is not used. \
           `client_recent_max_input_buffer` and `client_recent_max_output_buffer` are those of \
           this moment, `total_eviction_exceeded_time` and `current_eviction_exceeded_time` are \
           as exact as the rounds of `hz`. `gcc_version` is \
           left out, and so is what `debug` shows in Redis.",
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    example: "> INFO server\n...",
    handler: Handler::Session(|cx, args, reply| {
        let sections = InfoSections::new(args.from(1));
        reply.verbatim(*b"txt", cx.host.info(&sections));
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
