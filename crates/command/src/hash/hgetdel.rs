//! HGETDEL: takes fields out of a hash.

use collections::Hash;

use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static HGETDEL: Command = Command {
    name: "hgetdel",
    summary: "Returns the values of fields of a hash, and removes the fields.",
    since: "8.0.0",
    complexity: "O(N), N being the fields",
    group: Group::Hash,
    arity: Arity::at_least(5),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
    args: &[
        Arg::key("key"),
        Arg::block("fields", &[Arg::count_of_next("numfields"), Arg::part("field").multiple()])
            .token("FIELDS"),
    ],
    note: "A command of Redis 8.",
    example: "> HSET lake depth 12\n(integer) 1\n\
        > HGETDEL lake FIELDS 2 depth colour\n1) \"12\"\n2) (nil)\n> EXISTS lake\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

/// The position of the first field.
const FIELDS: usize = 4;
const NO_FIELDS: CommandError =
    CommandError::Fixed("ERR mandatory argument FIELDS is missing or not at the right position");
const NOT_A_COUNT: CommandError =
    CommandError::Fixed("ERR Number of fields must be a positive integer");
const WRONG_COUNT: CommandError =
    CommandError::Fixed("ERR The `numfields` parameter must match the number of arguments");

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    if !args.at(2).eq_ignore_ascii_case(b"FIELDS") {
        return Err(NO_FIELDS.into());
    }
    let count = args.integer(3).map_err(|_| NOT_A_COUNT)?;
    if count < 1 {
        return Err(NOT_A_COUNT.into());
    }
    if count != (args.len() - FIELDS) as i64 {
        return Err(WRONG_COUNT.into());
    }
    let fields = args.from(FIELDS);
    // The effect is HDEL, which every follower knows, and so is the event.
    let taken = cx.view.change(args.key(0), "HDEL", fields.clone(), |hash: &mut Hash, rules| {
        reply.array(fields.len());
        let mut has_removed = false;
        for field in fields.clone() {
            match hash.view().get(field, rules) {
                Some(value) => reply_element(value, reply),
                None => reply.null(),
            }
            has_removed |= hash.remove(field, rules);
        }
        ((), has_removed)
    })?;
    if taken.is_none() {
        reply.array(fields.len());
        fields.for_each(|_| reply.null());
    }
    Ok(())
}
