//! DEBUG HELP: its subcommands.

use crate::prelude::*;
use crate::table::help::reply_help;

pub(super) static HELP: Command = Command {
    name: "debug|help",
    summary: "Returns the subcommands and what they do.",
    group: Group::Server,
    arity: Arity::exactly(2),
    example: "> DEBUG HELP\n...",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(_: &mut ControlContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    reply_help("debug", super::SUBCOMMANDS, reply);
    Ok(())
}
