//! FEED: the stream of changes, and the groups that read it.
//!
//! *Not here*: the stream, its files and who reads them: the host answers, and the session waits
//! for it without holding a worker.

mod groups;
mod logs;
mod read;

use std::time::Duration;

use crate::host::{FeedQuestion, GROUP_NAME_BYTES_MAX};
use crate::prelude::*;
use crate::table::help;

const BAD_NAME: CommandError =
    CommandError::Fixed("ERR the name of a group is 1 to 128 printable characters without spaces");
const BAD_LSN: CommandError = CommandError::Fixed("ERR an LSN is a number of 64 bits");

pub(super) static FEED: Command = Command {
    name: "feed",
    summary: "Reads the stream of changes.",
    since: "7.2.0",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[
        &groups::ACK,
        &groups::CREATE,
        &groups::DROP,
        &groups::GROUPS,
        &HELP,
        &logs::INFO,
        &logs::LOGS,
        &read::READ,
    ],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "feed|help",
    since: "7.2.0",
    group: Group::Server,
    example: "> FEED HELP\n...",
    ..help::ROW
};

/// Asks the host, and has the session wait for the answer, no longer than `timeout`; zero is for
/// ever.
pub(super) fn ask(
    cx: &mut SessionContext<'_>,
    question: FeedQuestion,
    timeout: Duration,
) -> Result<Next, Unfinished> {
    let (id, protocol) = (cx.session.id, cx.session.protocol);
    cx.session.answer = Some(cx.host.feed()?.ask(id, protocol, question)?);
    // Within MULTI it is refused before.
    let refused = |reply: &mut Reply<'_>| CommandError::NOT_IN_TRANSACTION.write(reply);
    Err(Wait::new(timeout, |reply| reply.null_array(), 0).refused_by(refused).into())
}

/// Returns argument `index`, the name of a group.
fn group_name(args: Args<'_>, index: usize) -> Result<Box<[u8]>, CommandError> {
    let name = args.at(index);
    let is_name = (1..=GROUP_NAME_BYTES_MAX).contains(&name.len());
    match is_name && name.iter().all(u8::is_ascii_graphic) {
        true => Ok(name.into()),
        false => Err(BAD_NAME),
    }
}

/// Returns argument `index`, an LSN.
fn lsn(args: Args<'_>, index: usize) -> Result<u64, CommandError> {
    let text = args.at(index);
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.filter(|_| is_number).ok_or(BAD_LSN)
}
