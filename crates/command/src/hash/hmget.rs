//! HMGET: the values of fields.

use collections::Hash;

use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static HMGET: Command = Command {
    name: "hmget",
    summary: "Returns the values of fields of a hash.",
    since: "2.0.0",
    complexity: "O(N), N being the fields that are asked for",
    group: Group::Hash,
    arity: Arity::at_least(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::part("field").multiple()],
    example: "> HSET lake depth 12\n(integer) 1\n\
        > HMGET lake depth colour\n1) \"12\"\n2) (nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let hash = cx.view.collection::<Hash>(key)?;
    reply.array(args.len() - 2);
    for field in args.from(2) {
        match hash.and_then(|hash| hash.get(field, cx.view.rules(key))) {
            Some(value) => reply_element(value, reply),
            None => reply.null(),
        }
    }
    Ok(())
}
