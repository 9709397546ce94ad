//! LLEN: the length of a list.

use collections::List;

use crate::prelude::*;

pub(super) static LLEN: Command = Command {
    name: "llen",
    summary: "Returns the number of elements of a list.",
    since: "1.0.0",
    group: Group::List,
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    args: &[Arg::key("key")],
    example: "> RPUSH boats oar mast\n(integer) 2\n> LLEN boats\n(integer) 2",
    handler: Handler::Read(|cx, args, reply| {
        let list = cx.view.collection::<List>(args.key(0))?;
        reply.integer(list.map_or(0, |list| list.len()) as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
