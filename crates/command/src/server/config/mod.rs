//! CONFIG: the options of the server.

mod get;
mod resetstat;
mod rewrite;
mod set;

use crate::prelude::*;
use crate::table::help;

pub(super) static CONFIG: Command = Command {
    name: "config",
    summary: "Tells and sets the options of the server.",
    since: "2.0.0",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[&get::GET, &HELP, &resetstat::RESETSTAT, &rewrite::REWRITE, &set::SET],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "config|help",
    since: "5.0.0",
    group: Group::Server,
    example: "> CONFIG HELP\n...",
    ..help::ROW
};
