//! SWAPDB: two databases change places.

use crate::parse::database_number::{database_index, database_number};
use crate::prelude::*;

const BAD_FIRST: CommandError = CommandError::Fixed("ERR invalid first DB index");
const BAD_SECOND: CommandError = CommandError::Fixed("ERR invalid second DB index");

pub(super) static SWAPDB: Command = Command {
    name: "swapdb",
    summary: "Exchanges the contents of two databases.",
    since: "4.0.0",
    complexity: "O(N), N being the number of shards",
    group: Group::Server,
    arity: Arity::exactly(3),
    flags: Flags::WRITE.with(Flags::FAST).with(Flags::KEYLESS),
    categories: Categories::KEYSPACE.with(Categories::DANGEROUS),
    args: &[Arg::integer("index1").within(0, 15), Arg::integer("index2").within(0, 15)],
    example: "> SET lake deep\nOK\n\
        > SWAPDB 0 1\nOK\n\
        > GET lake\n(nil)\n\
        > SELECT 1\nOK\n\
        > GET lake\n\"deep\"",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut ControlContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let a = database_number(args.at(1)).map_err(|_| BAD_FIRST)?;
    let b = database_number(args.at(2)).map_err(|_| BAD_SECOND)?;
    let count = cx.access.keyspace().database_count();
    let [a, b] = [database_index(a, count)?, database_index(b, count)?];
    cx.access.swap_databases(a, b, cx.now)?;
    reply.ok();
    Ok(())
}
