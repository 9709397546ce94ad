//! CLIENT: this session and the others.

mod getname;
mod help;
mod id;
mod info;
mod list;
mod setinfo;
mod setname;

use crate::prelude::*;

/// The row.
pub static CLIENT: Command = Command {
    name: "client",
    summary: "Tells and sets what the server knows of sessions.",
    since: "2.4.0",
    complexity: "Depends on the subcommand",
    group: Group::Connection,
    arity: Arity::at_least(2),
    subcommands: &[
        &getname::GETNAME,
        &help::HELP,
        &id::ID,
        &info::INFO,
        &list::LIST,
        &setinfo::SETINFO,
        &setname::SETNAME,
    ],
    handler: Handler::Container,
    ..Command::DEFAULT
};
