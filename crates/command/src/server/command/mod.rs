//! COMMAND: the table itself.

mod count;
mod docs;
mod getkeys;
mod info;
mod list;

use crate::prelude::*;
use crate::table::describe::reply_row;
use crate::table::help;
use crate::table::table;

pub(super) static COMMAND: Command = Command {
    name: "command",
    summary: "Returns the rows of all commands.",
    since: "2.8.13",
    complexity: "O(N), N being the number of commands",
    group: Group::Server,
    arity: Arity::at_least(1),
    flags: Flags::LOADING.with(Flags::STALE),
    categories: Categories::CONNECTION,
    subcommands: &[
        &count::COUNT,
        &docs::DOCS,
        &getkeys::GETKEYS,
        &getkeys::GETKEYSANDFLAGS,
        &HELP,
        &info::INFO,
        &list::LIST,
    ],
    tips: &["nondeterministic_output_order"],
    example: "> COMMAND\n...",
    handler: Handler::Session(|_, _, reply| {
        reply.array(table().len());
        table().iter().for_each(|command| reply_row(Some(command), reply));
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "command|help",
    since: "5.0.0",
    group: Group::Server,
    categories: Categories::CONNECTION,
    example: "> COMMAND HELP\n...",
    ..help::ROW
};
