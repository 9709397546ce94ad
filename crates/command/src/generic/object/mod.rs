//! OBJECT: how values are kept.

mod encoding;
mod help;

use crate::prelude::*;

/// The row.
pub static OBJECT: Command = Command {
    name: "object",
    summary: "Tells how values are kept.",
    since: "2.2.3",
    complexity: "Depends on the subcommand",
    arity: Arity::at_least(2),
    subcommands: &[&encoding::ENCODING, &help::HELP],
    handler: Handler::Container,
    ..Command::DEFAULT
};
