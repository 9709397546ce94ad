//! LINSERT: puts an element beside another.

use collections::Place;

use crate::prelude::*;

pub(super) static LINSERT: Command = Command {
    name: "linsert",
    summary: "Puts an element before or behind the first one that equals a pivot.",
    since: "2.2.0",
    complexity: "O(N), N being the elements before the pivot",
    group: Group::List,
    arity: Arity::exactly(5),
    flags: Flags::DENYOOM.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::INSERT))],
    args: &[
        Arg::key("key"),
        Arg::one_of("where", &[Arg::word("before", "BEFORE"), Arg::word("after", "AFTER")]),
        Arg::part("pivot"),
        Arg::part("element"),
    ],
    example: "> RPUSH boats oar keel\n(integer) 2\n\
        > LINSERT boats BEFORE keel mast\n(integer) 3\n\
        > LINSERT boats AFTER sail rope\n(integer) -1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let place = match () {
        () if args.is(2, "BEFORE") => Place::Before,
        () if args.is(2, "AFTER") => Place::After,
        () => return Err(CommandError::Syntax.into()),
    };
    let length = match cx.view.insert_element(args.key(0), place, args.at(3), args.at(4))? {
        None => 0,
        Some(None) => -1,
        Some(Some(length)) => length as i64,
    };
    reply.integer(length);
    Ok(())
}
