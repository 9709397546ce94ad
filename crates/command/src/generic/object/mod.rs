//! OBJECT: how values are kept.

mod encoding;
mod freq;
mod help;
mod idletime;
mod refcount;

use crate::prelude::*;

pub(super) static OBJECT: Command = Command {
    name: "object",
    summary: "Tells how values are kept.",
    since: "2.2.3",
    complexity: "Depends on the subcommand",
    arity: Arity::at_least(2),
    subcommands: &[
        &encoding::ENCODING,
        &freq::FREQ,
        &help::HELP,
        &idletime::IDLETIME,
        &refcount::REFCOUNT,
    ],
    handler: Handler::Container,
    ..Command::DEFAULT
};
