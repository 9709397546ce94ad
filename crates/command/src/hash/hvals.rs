//! HVALS: all values.

use collections::Hash;

use crate::handler::element::reply_element;

use super::hkeys::HKEYS;
use crate::prelude::*;

pub(super) static HVALS: Command = Command {
    name: "hvals",
    summary: "Returns all values of a hash.",
    example: "> HSET lake depth 12\n(integer) 1\n> HVALS lake\n1) \"12\"",
    handler: Handler::Read(run),
    ..HKEYS
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let hash = cx.view.collection::<Hash>(args.key(0))?;
    reply.array(hash.map_or(0, Hash::len));
    if let Some(hash) = hash {
        hash.for_each(|_, value| reply_element(value, reply));
    }
    Ok(())
}
