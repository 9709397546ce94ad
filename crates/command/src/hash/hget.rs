//! HGET: the value of a field.

use collections::Hash;

use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static HGET: Command = Command {
    name: "hget",
    summary: "Returns the value of a field of a hash.",
    since: "2.0.0",
    group: Group::Hash,
    arity: Arity::exactly(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::part("field")],
    example: "> HSET lake depth 12\n(integer) 1\n\
        > HGET lake depth\n\"12\"\n\
        > HGET lake colour\n(nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let hash = cx.view.collection::<Hash>(key)?;
    match hash.and_then(|hash| hash.get(args.at(2), cx.view.rules(key))) {
        Some(value) => reply_element(value, reply),
        None => reply.null(),
    }
    Ok(())
}
