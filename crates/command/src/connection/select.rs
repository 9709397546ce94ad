//! SELECT: another database.

use crate::parse::database_number::{NumberError, database_index, database_number};
use crate::prelude::*;

const OUT_OF_RANGE: CommandError =
    CommandError::Fixed("ERR value is out of range, value must between -2147483648 and 2147483647");

pub(super) static SELECT: Command = Command {
    name: "select",
    summary: "Chooses the database for the commands that follow.",
    since: "1.0.0",
    group: Group::Connection,
    arity: Arity::exactly(2),
    flags: Flags::LOADING.with(Flags::STALE).with(Flags::FAST),
    args: &[Arg::integer("index").within(0, 15)],
    example: "> SELECT 1\nOK\n> SET lake deep\nOK\n> SELECT 0\nOK\n> GET lake\n(nil)",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let number = database_number(args.at(1)).map_err(|error| match error {
        NumberError::NotInteger => CommandError::NotInteger,
        NumberError::OutOfRange => OUT_OF_RANGE,
    })?;
    cx.session.database = database_index(number, cx.host.database_count())?;
    reply.ok();
    Ok(Next::Done)
}
