//! SHM: the data as shared memory, for processes on this host that read it where it lies,
//! connections through shared memory, and values that a process writes where they are to lie.

mod alloc;
mod attach;
mod close;
mod commit;
mod copy;
mod free;
mod lane;
mod open;
mod seal;
mod segments;
mod take;
mod upload;

use crate::prelude::*;
use crate::table::help;

pub(super) static SHM: Command = Command {
    name: "shm",
    summary: "Shares memory with a process on this host, for reads, requests and values.",
    since: "7.2.4",
    complexity: "Depends on the subcommand",
    group: Group::Server,
    arity: Arity::at_least(2),
    subcommands: &[
        &alloc::ALLOC,
        &attach::ATTACH,
        &close::CLOSE,
        &commit::COMMIT,
        &copy::COPY,
        &free::FREE,
        &HELP,
        &lane::LANE,
        &open::OPEN,
        &seal::SEAL,
        &segments::SEGMENTS,
        &take::TAKE,
        &upload::UPLOAD,
    ],
    handler: Handler::Container,
    ..Command::DEFAULT
};

static HELP: Command = Command {
    name: "shm|help",
    since: "7.2.4",
    group: Group::Server,
    example: "> SHM HELP\n...",
    ..help::ROW
};

/// Returns the argument at `index`: an offset, a serial or a number of bytes.
fn natural(args: Args<'_>, index: usize) -> Result<u64, CommandError> {
    u64::try_from(args.integer(index)?).map_err(|_| CommandError::NOT_POSITIVE)
}

/// Returns the number of a lane at argument 2. None has a negative one: 0 stands for these, which
/// no lane has either.
fn lane_number(args: Args<'_>) -> Result<u64, CommandError> {
    Ok(u64::try_from(args.integer(2)?).unwrap_or(0))
}

/// Replies with a map of names and numbers.
fn reply_numbers(reply: &mut Reply<'_>, numbers: &[(&str, u64)]) {
    reply.map(numbers.len());
    for &(name, number) in numbers {
        reply.bulk(name);
        reply.integer(number as i64);
    }
}
