//! OBJECT ENCODING: the encoding of a value.

use crate::prelude::*;

pub(super) static ENCODING: Command = Command {
    name: "object|encoding",
    summary: "Returns the encoding of the value at a key.",
    since: "2.2.3",
    arity: Arity::exactly(3),
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    args: &[Arg::key("key")],
    tips: &["nondeterministic_output"],
    example: "> SET lake deep\nOK\n\
        > OBJECT ENCODING lake\n\"embstr\"\n\
        > SET depth 12\nOK\n\
        > OBJECT ENCODING depth\n\"int\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    match cx.view.peek(args.key(0)) {
        Some(object) => reply.bulk(object.encoding_name()),
        None => reply.null(),
    }
    Ok(())
}
