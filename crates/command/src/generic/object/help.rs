//! OBJECT HELP: its subcommands.

use crate::prelude::*;
use crate::table::help::reply_help;

pub(super) static HELP: Command = Command {
    name: "object|help",
    summary: "Returns the subcommands and what they do.",
    since: "6.2.0",
    arity: Arity::exactly(2),
    flags: Flags::LOADING.with(Flags::STALE),
    example: "> OBJECT HELP\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(_: &mut SessionContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Unfinished> {
    reply_help("object", super::OBJECT.subcommands, reply);
    Ok(Next::Done)
}
