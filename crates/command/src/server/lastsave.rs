//! LASTSAVE: when the dataset was saved last.

use crate::prelude::*;

pub(super) static LASTSAVE: Command = Command {
    name: "lastsave",
    summary: "Returns when the dataset was saved last, in Unix seconds.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::exactly(1),
    flags: Flags::LOADING.with(Flags::STALE).with(Flags::FAST),
    note: "Before the first time it is when the server started.",
    categories: Categories::ADMIN.with(Categories::DANGEROUS),
    tips: &["nondeterministic_output"],
    example: "> LASTSAVE\n(integer) 0",
    handler: Handler::Session(|cx, _, reply| {
        reply.integer(cx.host.saved_at_s());
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
