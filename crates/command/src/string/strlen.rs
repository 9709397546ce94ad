//! STRLEN: the length of a string.

use crate::prelude::*;

pub(super) static STRLEN: Command = Command {
    name: "strlen",
    summary: "Returns the length of the string at a key, 0 where there is none.",
    since: "2.2.0",
    group: Group::String,
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    args: &[Arg::key("key")],
    example: "> SET lake deep\nOK\n> STRLEN lake\n(integer) 4\n> STRLEN river\n(integer) 0",
    handler: Handler::Read(|cx, args, reply| {
        let length = cx.view.string_length(args.key(0))?.unwrap_or(0);
        reply.integer(length as i64);
        Ok(())
    }),
    ..Command::DEFAULT
};
