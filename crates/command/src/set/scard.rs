//! SCARD: the number of members.

use collections::Set;

use crate::prelude::*;

pub(super) static SCARD: Command = Command {
    name: "scard",
    summary: "Returns the number of members of a set.",
    since: "1.0.0",
    group: Group::Set,
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    args: &[Arg::key("key")],
    example: "> SADD fish pike perch\n(integer) 2\n> SCARD fish\n(integer) 2",
    handler: Handler::Read(|cx, args, reply| {
        let set = cx.view.collection::<Set>(args.key(0))?;
        reply.integer(set.map_or(0, |set| set.len()) as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
