//! HKEYS: all fields.

use collections::Hash;

use crate::handler::element::reply_element;

use crate::prelude::*;

pub(super) static HKEYS: Command = Command {
    name: "hkeys",
    summary: "Returns all fields of a hash.",
    since: "2.0.0",
    complexity: "O(N), N being the fields",
    group: Group::Hash,
    arity: Arity::exactly(2),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    tips: &["nondeterministic_output_order"],
    example: "> HSET lake depth 12\n(integer) 1\n> HKEYS lake\n1) \"depth\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let hash = cx.view.collection::<Hash>(args.key(0))?;
    reply.array(hash.map_or(0, Hash::len));
    if let Some(hash) = hash {
        hash.for_each(|field, _| reply_element(field, reply));
    }
    Ok(())
}
