//! HLEN: the number of fields.

use collections::Hash;

use crate::prelude::*;

pub(super) static HLEN: Command = Command {
    name: "hlen",
    summary: "Returns the number of fields of a hash.",
    since: "2.0.0",
    group: Group::Hash,
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    args: &[Arg::key("key")],
    example: "> HSET lake depth 12\n(integer) 1\n> HLEN lake\n(integer) 1",
    handler: Handler::Read(|cx, args, reply| {
        let hash = cx.view.collection::<Hash>(args.key(0))?;
        reply.integer(hash.map_or(0, |hash| hash.len()) as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
