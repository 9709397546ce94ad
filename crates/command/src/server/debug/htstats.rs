//! DEBUG HTSTATS: the size of a database.

use base::DatabaseIndex;

use crate::prelude::*;

const OUT_OF_RANGE: CommandError = CommandError::Fixed("ERR Out of range database");

pub(super) static HTSTATS: Command = Command {
    name: "debug|htstats",
    summary: "Tells how many keys a database has, and how many of them expire.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::at_least(3),
    args: &[Arg::integer("dbid").within(0, 15), Arg::word("full", "FULL").optional()],
    note: "There is no table as Redis describes it: the numbers of keys are all there is.",
    example: "> DEBUG HTSTATS 0\n...",
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
    let number = args.integer(2)?;
    let database = u8::try_from(number).ok().map(DatabaseIndex);
    let is_there = |database: &DatabaseIndex| usize::from(database.0) < cx.host.database_count();
    let database = database.filter(is_there).ok_or(OUT_OF_RANGE)?;
    let counts = cx.access.keyspace().counts(database);
    let (all, expiring) = (stats(counts.keys), stats(counts.volatile));
    reply.verbatim(*b"txt", format!("[Dictionary HT]\n{all}[Expires HT]\n{expiring}"));
    Ok(())
}

/// Returns the lines of a table with `count` elements.
pub(super) fn stats(count: u64) -> String {
    let title = "Hash table 0 stats (main hash table):\n";
    match count {
        0 => format!("{title}No stats available for empty dictionaries\n"),
        _ => format!("{title} number of elements: {count}\n"),
    }
}
