//! XLEN: the number of entries of a stream.

use collections::Stream;

use crate::prelude::*;

pub(super) static XLEN: Command = Command {
    name: "xlen",
    summary: "Returns the number of entries of a stream.",
    since: "5.0.0",
    group: Group::Stream,
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    args: &[Arg::key("key")],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XLEN river\n(integer) 1",
    handler: Handler::Read(|cx, args, reply| {
        let stream = cx.view.collection::<Stream>(args.key(0))?;
        reply.integer(stream.map_or(0, |stream| stream.len() as i64));
        Ok(())
    }),
    ..Command::DEFAULT
};
