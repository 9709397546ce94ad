//! OBJECT: how values are kept.

mod cost;
mod encoding;
mod freq;
mod idletime;
mod refcount;

use crate::prelude::*;
use crate::table::help;

pub(super) static OBJECT: Command = Command {
    name: "object",
    summary: "Tells how values are kept.",
    since: "2.2.3",
    complexity: "Depends on the subcommand",
    arity: Arity::at_least(2),
    subcommands: &[
        &cost::COST,
        &encoding::ENCODING,
        &freq::FREQ,
        &HELP,
        &idletime::IDLETIME,
        &refcount::REFCOUNT,
    ],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command =
    Command { name: "object|help", since: "6.2.0", example: "> OBJECT HELP\n...", ..help::ROW };
