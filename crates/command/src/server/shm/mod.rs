//! SHM: the data as shared memory, for processes on this host that read it where it lies, and
//! connections through shared memory.

mod attach;
mod close;
mod help;
mod lane;
mod seal;
mod segments;
mod take;

use crate::prelude::*;

/// The row.
pub static SHM: Command = Command {
    name: "shm",
    summary: "Shares memory with a process on this host, for reads and for requests.",
    since: "7.2.4",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[
        &attach::ATTACH,
        &close::CLOSE,
        &help::HELP,
        &lane::LANE,
        &seal::SEAL,
        &segments::SEGMENTS,
        &take::TAKE,
    ],
    handler: Handler::Container,
    ..Command::DEFAULT
};
