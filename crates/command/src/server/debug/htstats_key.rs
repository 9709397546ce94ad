//! DEBUG HTSTATS-KEY: the size of a table at a key.

use keyspace::Object;

use super::htstats::stats;
use super::peek;
use crate::prelude::*;

const NO_TABLE: CommandError = CommandError::Fixed(
    "ERR The value stored at the specified key is not represented using an hash table",
);

pub(super) static HTSTATS_KEY: Command = Command {
    name: "debug|htstats-key",
    summary: "Tells how many elements the table of a hash, set or sorted set has.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::at_least(3),
    args: &[Arg::string("key"), Arg::word("full", "FULL").optional()],
    note: "There is no table as Redis describes it: the number of elements is all there is.",
    example: "> DEBUG HTSTATS-KEY lake\n(error) ERR no such key",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    if args.len() > 4 {
        return Err(CommandError::subcommand_syntax("DEBUG", args.at(1)).into());
    }
    reply.verbatim(*b"txt", peek(cx, args.at(2), describe).ok_or(CommandError::NO_SUCH_KEY)??);
    Ok(())
}

fn describe(entry: &Object<'_>) -> Result<String, CommandError> {
    let is_table = ["hashtable", "skiplist"].contains(&entry.encoding_name());
    let table = entry.collection().filter(|_| is_table).ok_or(NO_TABLE)?;
    Ok(stats(table.len() as u64))
}
