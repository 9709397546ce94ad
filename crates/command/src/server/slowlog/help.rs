//! SLOWLOG HELP: its subcommands.

use crate::prelude::*;
use crate::table::help::reply_help;

pub(super) static HELP: Command = Command {
    name: "slowlog|help",
    summary: "Returns the subcommands and what they do.",
    since: "6.2.0",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::LOADING.with(Flags::STALE),
    example: "> SLOWLOG HELP\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(_: &mut SessionContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Unfinished> {
    reply_help("slowlog", super::SLOWLOG.subcommands, reply);
    Ok(Next::Done)
}
