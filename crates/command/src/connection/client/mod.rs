//! CLIENT: this session and the others.

mod caching;
mod client_type;
mod getname;
mod getredir;
mod id;
mod info;
mod kill;
mod list;
mod no_evict;
mod pause;
mod reply;
mod setinfo;
mod setname;
mod tracking;
mod trackinginfo;
mod unblock;
mod unpause;

use crate::prelude::*;
use crate::table::help;

pub(super) static CLIENT: Command = Command {
    name: "client",
    summary: "Tells and sets what the server knows of sessions.",
    since: "2.4.0",
    complexity: "Depends on the subcommand",
    group: Group::Connection,
    arity: Arity::at_least(2),
    subcommands: &[
        &caching::CACHING,
        &getname::GETNAME,
        &getredir::GETREDIR,
        &HELP,
        &id::ID,
        &info::INFO,
        &kill::KILL,
        &list::LIST,
        &no_evict::NO_EVICT,
        &no_evict::NO_TOUCH,
        &pause::PAUSE,
        &reply::REPLY,
        &setinfo::SETINFO,
        &setname::SETNAME,
        &tracking::TRACKING,
        &trackinginfo::TRACKINGINFO,
        &unblock::UNBLOCK,
        &unpause::UNPAUSE,
    ],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "client|help",
    since: "5.0.0",
    group: Group::Connection,
    example: "> CLIENT HELP\n...",
    ..help::ROW
};

/// Returns argument `index`, which is ON or OFF, as true or false.
fn switch(args: Args<'_>, index: usize) -> Result<bool, CommandError> {
    match args.at(index).to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}
