//! CACHE: what the cache could do with other memory or another policy.

mod advise;

use crate::prelude::*;
use crate::table::help;

pub(super) static CACHE: Command = Command {
    name: "cache",
    summary: "Tells what the cache could do with other memory or another policy.",
    since: "7.2.4",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[&advise::ADVISE, &HELP],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "cache|help",
    since: "7.2.4",
    group: Group::Server,
    example: "> CACHE HELP\n...",
    ..help::ROW
};
