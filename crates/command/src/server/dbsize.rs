//! DBSIZE: the number of keys.

use crate::prelude::*;

pub(super) static DBSIZE: Command = Command {
    name: "dbsize",
    summary: "Returns the number of keys in the database.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(1),
    flags: Flags::READONLY.with(Flags::FAST),
    categories: Categories::KEYSPACE,
    tips: &["request_policy:all_shards", "response_policy:agg_sum"],
    note: "Stale values, which only LGET finds, count until their time has passed.",
    example: "> MSET lake deep hill high\nOK\n> DBSIZE\n(integer) 2",
    handler: Handler::Control(|cx, _, reply| {
        reply.integer(cx.access.key_count(cx.session.database) as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
