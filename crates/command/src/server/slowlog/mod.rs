//! SLOWLOG: the commands that took long.

mod get;
mod len;
mod reset;

use crate::prelude::*;
use crate::table::help;

pub(super) static SLOWLOG: Command = Command {
    name: "slowlog",
    summary: "Tells which commands took long.",
    since: "2.2.12",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[&get::GET, &HELP, &len::LEN, &reset::RESET],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "slowlog|help",
    since: "6.2.0",
    group: Group::Server,
    example: "> SLOWLOG HELP\n...",
    ..help::ROW
};
