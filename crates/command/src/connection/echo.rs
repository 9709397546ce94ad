//! ECHO: the argument.

use crate::prelude::*;

pub(super) static ECHO: Command = Command {
    name: "echo",
    summary: "Returns the argument.",
    since: "1.0.0",
    group: Group::Connection,
    arity: Arity::exactly(2),
    flags: Flags::LOADING.with(Flags::STALE).with(Flags::FAST),
    args: &[Arg::string("message")],
    example: "> ECHO hello\n\"hello\"",
    handler: Handler::Session(|_, args, reply| {
        reply.bulk(args.at(1));
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
