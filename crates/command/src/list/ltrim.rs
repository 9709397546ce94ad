//! LTRIM: keeps a part of a list.

use base::index_range::index_range;
use collections::List;

use crate::prelude::*;

pub(super) static LTRIM: Command = Command {
    name: "ltrim",
    summary: "Removes the elements of a list outside of a range of indexes.",
    since: "1.0.0",
    complexity: "O(N), N being the elements that are removed",
    group: Group::List,
    arity: Arity::exactly(4),
    flags: Flags::EFFECT,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[
        Arg::key("key"),
        Arg::integer("start").within(-10, 10),
        Arg::integer("stop").within(-10, 10),
    ],
    example: "> RPUSH boats oar mast keel\n(integer) 3\n\
        > LTRIM boats 1 -1\nOK\n\
        > LRANGE boats 0 -1\n1) \"mast\"\n2) \"keel\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (start, stop) = (args.integer(2)?, args.integer(3)?);
    let key = args.key(0);
    if let Some(list) = cx.view.collection::<List>(key)? {
        let range = index_range(start, stop, list.len());
        cx.view.trim(key, range.start, range.len())?;
    }
    reply.ok();
    Ok(())
}
