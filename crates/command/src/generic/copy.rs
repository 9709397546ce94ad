//! COPY: a value under another key as well.

use base::DatabaseIndex;

use super::r#move::SAME;
use crate::parse::database_number::database_argument;
use crate::prelude::*;

pub(super) static COPY: Command = Command {
    name: "copy",
    summary: "Gives another key the same value and time to live, also in another database.",
    since: "6.2.0",
    complexity: "O(N), N being the bytes of a string",
    arity: Arity::at_least(3),
    flags: Flags::DENYOOM,
    keys: &[
        KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS)),
        KeySpec::at(2, KeyFlags::OW.with(KeyFlags::UPDATE)),
    ],
    args: &[
        Arg::key("source"),
        Arg::key("destination").spec(1),
        Arg::integer("destination-db").token("DB").within(0, 15).optional(),
        Arg::word("replace", "REPLACE").optional(),
    ],
    example: "> MSET lake deep hill high\nOK\n\
        > COPY lake hill\n(integer) 0\n\
        > COPY lake hill REPLACE\n(integer) 1\n\
        > GET hill\n\"deep\"\n\
        > COPY lake lake DB 1\n(integer) 1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let [source, target] = [args.key(0), args.key(1)];
    let (database, replaces) = options(cx, args)?;
    if database == cx.view.database() && source.bytes == target.bytes {
        return Err(SAME.into());
    }
    // Where it has expired it goes here: what is only read is settled behind the command, with the
    // target, at which Redis does not look then.
    cx.view.contains(source);
    let is_wanted = cx.view.as_read().entry(source).is_some()
        && (replaces || !cx.view.contains_in(database, target));
    // The request does not bring the bytes that are stored, so that nobody has made room for them.
    if is_wanted
        && let Some(bytes) =
            cx.view.lacks_room_for_copy(source, cx.memory_policy.overshoot_bytes_max())
    {
        return Err(Need::Reserve(bytes).into());
    }
    let is_copied = is_wanted && cx.view.copy_to(source, target, database)?;
    reply.integer(i64::from(is_copied));
    Ok(())
}

/// Returns the database of the copy and whether it takes the place of what is there.
fn options(cx: &WriteContext<'_>, args: Args<'_>) -> Result<(DatabaseIndex, bool), Unfinished> {
    let (mut database, mut replaces) = (cx.view.database(), false);
    let mut index = 3;
    while index < args.len() {
        if args.is(index, "REPLACE") {
            replaces = true;
        } else if args.is(index, "DB") && index + 1 < args.len() {
            index += 1;
            database = database_argument(args.at(index), cx.database_count)?;
        } else {
            return Err(CommandError::Syntax.into());
        }
        index += 1;
    }
    Ok((database, replaces))
}
