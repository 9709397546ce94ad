//! PING: is anyone there?

use crate::prelude::*;

pub(super) static PING: Command = Command {
    name: "ping",
    summary: "Returns PONG, or the argument where there is one.",
    since: "1.0.0",
    group: Group::Connection,
    arity: Arity::at_least(1),
    flags: Flags::FAST,
    args: &[Arg::string("message").optional()],
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    example: "> PING\nPONG\n> PING hello\n\"hello\"",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    _: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.at(1)),
        _ => return Err(CommandError::WrongArity(&PING).into()),
    }
    Ok(Next::Done)
}
