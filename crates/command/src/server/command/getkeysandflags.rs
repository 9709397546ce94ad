//! COMMAND GETKEYSANDFLAGS: the keys of a request, and what it does with them.

use super::request_keys::RequestWithKeys;
use crate::prelude::*;
use crate::table::describe::reply_words;

pub(super) static GETKEYSANDFLAGS: Command = Command {
    name: "command|getkeysandflags",
    summary: "Returns the keys in a request, each with what the request does with it.",
    since: "7.0.0",
    complexity: "O(N), N being the number of arguments",
    group: Group::Server,
    arity: Arity::at_least(4),
    flags: Flags::LOADING.with(Flags::STALE),
    categories: Categories::CONNECTION,
    args: &[Arg::string("command").among(&["GET"]), Arg::string("arg").multiple()],
    example: "> COMMAND GETKEYSANDFLAGS GET lake\n1) 1) \"lake\"\n   2) 1) RO\n      2) access",
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
    for spec in inner.command.keys {
        let flags = inner.flags_of(spec);
        for position in spec.positions(inner.request) {
            reply.array(2);
            reply.bulk(inner.request.at(position));
            reply_words(flags.names(), reply);
        }
    }
    Ok(Next::Done)
}
