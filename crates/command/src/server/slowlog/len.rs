//! SLOWLOG LEN: how many entries there are.

use crate::prelude::*;

pub(super) static LEN: Command = Command {
    name: "slowlog|len",
    summary: "Returns the number of entries of the slow log.",
    since: "2.2.12",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::ADMIN.with(Flags::LOADING).with(Flags::STALE),
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    example: "> SLOWLOG LEN\n(integer) 0",
    handler: Handler::Session(|cx, _, reply| {
        reply.integer(cx.host.slow_log_len() as i64);
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
