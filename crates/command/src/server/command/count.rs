//! COMMAND COUNT: how many commands there are.

use crate::prelude::*;
use crate::table::table;

pub(super) static COUNT: Command = Command {
    name: "command|count",
    summary: "Returns the number of commands.",
    since: "2.8.13",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::LOADING.with(Flags::STALE),
    categories: Categories::CONNECTION,
    example: "> COMMAND COUNT\n...",
    handler: Handler::Session(|_, _, reply| {
        reply.integer(table().len() as i64);
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
