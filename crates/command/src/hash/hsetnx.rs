//! HSETNX: sets a field that is not there.

use collections::Hash;

use crate::prelude::*;

pub(super) static HSETNX: Command = Command {
    name: "hsetnx",
    summary: "Sets a field of a hash, unless it is there.",
    since: "2.0.0",
    group: Group::Hash,
    arity: Arity::exactly(4),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::INSERT))],
    args: &[Arg::key("key"), Arg::part("field"), Arg::string("value")],
    example: "> HSETNX lake depth 12\n(integer) 1\n> HSETNX lake depth 13\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (key, field) = (args.key(0), args.at(2));
    let view = &cx.view;
    let hash = view.collection::<Hash>(key)?;
    let is_there = hash.is_some_and(|hash| hash.get(field, view.rules(key)).is_some());
    if !is_there {
        cx.view.set_fields(key, args.from(2))?;
    }
    reply.integer(i64::from(!is_there));
    Ok(())
}
