//! OBJECT COST: how much dearer than others a key is to have back.

use crate::prelude::*;

pub(super) static COST: Command = Command {
    name: "object|cost",
    summary: "Returns the cost that SET gave a key, as it is kept; 1 where it gave none.",
    since: "7.2.4",
    arity: Arity::exactly(3),
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    args: &[Arg::key("key")],
    note: "Redis does not have it. Of a cost above 31 the five highest bits are kept.",
    example: "> OBJECT COST lake\n(nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    match cx.view.peek(args.key(0)) {
        Some(entry) => reply.integer(entry.cost().number() as i64),
        None => reply.null(),
    }
    Ok(())
}
