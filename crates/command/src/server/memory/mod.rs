//! MEMORY: where memory goes.

mod doctor;
mod malloc_stats;
mod purge;
mod stats;
mod usage;

use crate::prelude::*;
use crate::table::help;

pub(super) static MEMORY: Command = Command {
    name: "memory",
    summary: "Tells where memory goes.",
    since: "4.0.0",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[
        &doctor::DOCTOR,
        &HELP,
        &malloc_stats::MALLOC_STATS,
        &purge::PURGE,
        &stats::STATS,
        &usage::USAGE,
    ],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "memory|help",
    since: "4.0.0",
    group: Group::Server,
    example: "> MEMORY HELP\n...",
    ..help::ROW
};
