//! LSET: replaces one element of a list.

use base::index_range::index_of;
use collections::List;

use crate::prelude::*;

const INDEX_OUT_OF_RANGE: CommandError = CommandError::Fixed("ERR index out of range");

pub(super) static LSET: Command = Command {
    name: "lset",
    summary: "Replaces the element of a list at an index.",
    since: "1.0.0",
    complexity: "O(N), N being the distance of the element from the nearer end, in listpacks",
    group: Group::List,
    arity: Arity::exactly(4),
    flags: Flags::DENYOOM.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::integer("index").within(-10, 10), Arg::part("element")],
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > LSET boats 0 keel\nOK\n\
        > LSET boats 9 keel\n(error) ERR index out of range",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let list = cx.view.collection::<List>(key)?.ok_or(CommandError::NO_SUCH_KEY)?;
    let index = index_of(args.integer(2)?, list.len()).ok_or(INDEX_OUT_OF_RANGE)?;
    cx.view.set_element(key, index, args.at(3))?;
    reply.ok();
    Ok(())
}
