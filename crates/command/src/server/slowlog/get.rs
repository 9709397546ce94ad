//! SLOWLOG GET: the latest entries.

use base::number::parse_i64;

use crate::prelude::*;

/// Entries that are returned where nobody says how many.
const COUNT_DEFAULT: usize = 10;
const BAD_COUNT: CommandError =
    CommandError::Fixed("ERR count should be greater than or equal to -1");

pub(super) static GET: Command = Command {
    name: "slowlog|get",
    summary: "Returns the latest entries of the slow log.",
    since: "2.2.12",
    complexity: "O(N), N being the number of entries returned",
    group: Group::Server,
    arity: Arity::at_least(2),
    flags: Flags::ADMIN.with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::integer("count").within(-1, 20).optional()],
    history: &[("4.0.0", "Added client IP address, port and name to the reply.")],
    note: "Brief commands that follow each other in one pipeline are timed together, unless \
           one has to wait or has a large argument, or `slowlog-log-slower-than` is below \
           1000.",
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    example: "> SLOWLOG GET 0\n(empty array)",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let count = match args.len() {
        2 => COUNT_DEFAULT,
        3 => match parse_i64(args.at(2)) {
            Some(-1) => usize::MAX,
            Some(count @ 0..) => usize::try_from(count).unwrap_or(usize::MAX),
            _ => return Err(BAD_COUNT.into()),
        },
        _ => return Err(CommandError::subcommand_syntax("SLOWLOG", args.at(1)).into()),
    };
    let entries = cx.host.slow_log(count);
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.integer(entry.id as i64);
        reply.integer(entry.time_s);
        reply.integer(entry.microseconds as i64);
        reply.array(entry.arguments.len());
        entry.arguments.iter().for_each(|argument| reply.bulk(argument));
        reply.bulk(entry.address);
        reply.bulk(entry.name);
    }
    Ok(Next::Done)
}
