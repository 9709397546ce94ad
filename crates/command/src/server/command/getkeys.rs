//! COMMAND GETKEYS: the keys of a request.

use super::request_keys::RequestWithKeys;
use crate::prelude::*;

pub(super) static GETKEYS: Command = Command {
    name: "command|getkeys",
    summary: "Returns the keys in a request that is given as arguments.",
    since: "2.8.13",
    complexity: "O(N), N being the number of arguments",
    group: Group::Server,
    arity: Arity::at_least(4),
    flags: Flags::LOADING.with(Flags::STALE),
    categories: Categories::CONNECTION,
    args: &[Arg::string("command").among(&["GET"]), Arg::string("arg").multiple()],
    example: "> COMMAND GETKEYS MSET lake deep hill high\n1) \"lake\"\n2) \"hill\"",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    _: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let inner = RequestWithKeys::parse(args)?;
    reply.array(inner.command.key_positions(inner.request).count());
    for position in inner.command.key_positions(inner.request) {
        reply.bulk(inner.request.at(position));
    }
    Ok(Next::Done)
}
