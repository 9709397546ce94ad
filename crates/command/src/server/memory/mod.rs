//! MEMORY: where memory goes.

mod help;
mod usage;

use crate::prelude::*;

/// The row.
pub static MEMORY: Command = Command {
    name: "memory",
    summary: "Tells where memory goes.",
    since: "4.0.0",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[&help::HELP, &usage::USAGE],
    handler: Handler::Container,
    ..Command::DEFAULT
};
