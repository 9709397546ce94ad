//! SLOWLOG: the commands that took long.

mod get;
mod help;
mod len;
mod reset;

use crate::prelude::*;

pub(super) static SLOWLOG: Command = Command {
    name: "slowlog",
    summary: "Tells which commands took long.",
    since: "2.2.12",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[&get::GET, &help::HELP, &len::LEN, &reset::RESET],
    handler: Handler::Container,
    ..Command::DEFAULT
};
