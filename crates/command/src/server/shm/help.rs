//! SHM HELP: its subcommands.

use crate::prelude::*;
use crate::table::help::reply_help;

pub(super) static HELP: Command = Command {
    name: "shm|help",
    summary: "Returns the subcommands and what they do.",
    since: "7.2.4",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::LOADING.with(Flags::STALE),
    example: "> SHM HELP\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(_: &mut SessionContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<Next, Unfinished> {
    reply_help("shm", super::SHM.subcommands, reply);
    Ok(Next::Done)
}
