//! CLIENT HELP: its subcommands.

use crate::prelude::*;
use crate::table::help::reply_help;

pub(super) static HELP: Command = Command {
    name: "client|help",
    summary: "Returns the subcommands and what they do.",
    since: "5.0.0",
    group: Group::Connection,
    arity: Arity::exactly(2),
    flags: Flags::LOADING.with(Flags::STALE),
    example: "> CLIENT HELP\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(_: &mut SessionContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Unfinished> {
    reply_help("client", super::CLIENT.subcommands, reply);
    Ok(Next::Done)
}
