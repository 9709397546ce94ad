//! The rows of all commands.

use std::sync::OnceLock;

use crate::row::Command;
use crate::{connection, generic, server, string, transactions};

/// Returns the rows of all commands: containers stand for their subcommands.
pub fn table() -> &'static [&'static Command] {
    static TABLE: OnceLock<Box<[&'static Command]>> = OnceLock::new();
    TABLE.get_or_init(|| FAMILIES.concat().into_boxed_slice())
}

/// Returns every row that runs something: commands without subcommands, subcommands, and
/// containers that have a handler of their own.
pub fn rows() -> impl Iterator<Item = &'static Command> {
    table()
        .iter()
        .copied()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands.iter().copied()))
}

static FAMILIES: [&[&Command]; 5] = [
    connection::CONNECTION,
    string::STRING,
    generic::GENERIC,
    transactions::TRANSACTIONS,
    server::SERVER,
];
