//! MOVE: a key goes to another database.

use keyspace::Moved;

use crate::parse::database_number::database_argument;
use crate::prelude::*;

pub(super) const SAME: CommandError =
    CommandError::Fixed("ERR source and destination objects are the same");

pub(super) static MOVE: Command = Command {
    name: "move",
    summary: "Takes a key to another database if it does not exist there.",
    since: "1.0.0",
    complexity: "O(1), or O(N) for a string of N bytes that has to be copied",
    arity: Arity::exactly(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::integer("db").within(0, 15)],
    example: "> SET lake deep\nOK\n\
        > MOVE lake 1\n(integer) 1\n\
        > GET lake\n(nil)\n\
        > SELECT 1\nOK\n\
        > GET lake\n\"deep\"",
    asks_for_time: true,
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let database = database_argument(args.at(2), cx.database_count)?;
    if database == cx.view.database() {
        return Err(SAME.into());
    }
    let moved = cx.view.move_on(cx.move_terms(false), key, database)?;
    if moved == Moved::IsLong {
        return Err(Need::TimeAlone.into());
    }
    reply.integer(i64::from(moved == Moved::Done));
    Ok(())
}
