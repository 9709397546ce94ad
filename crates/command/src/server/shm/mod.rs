//! SHM: the data as shared memory, for processes on this host that read it where it lies.

mod attach;
mod help;
mod segments;

use crate::prelude::*;

/// The row.
pub static SHM: Command = Command {
    name: "shm",
    summary: "Lets a process on this host map the data for reading.",
    since: "7.2.4",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[&attach::ATTACH, &help::HELP, &segments::SEGMENTS],
    handler: Handler::Container,
    ..Command::DEFAULT
};
