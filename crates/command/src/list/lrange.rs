//! LRANGE: a part of a list.

use base::index_range::index_range;
use collections::List;

use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static LRANGE: Command = Command {
    name: "lrange",
    summary: "Returns the elements of a list from one index to another.",
    since: "1.0.0",
    complexity: "O(S+N), S being the distance of the start from the nearer end, N the elements \
        returned",
    group: Group::List,
    arity: Arity::exactly(4),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::integer("start").within(-10, 10),
        Arg::integer("stop").within(-10, 10),
    ],
    example: "> RPUSH boats oar mast keel\n(integer) 3\n\
        > LRANGE boats 0 -2\n1) \"oar\"\n2) \"mast\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (start, stop) = (args.integer(2)?, args.integer(3)?);
    let Some(list) = cx.view.collection::<List>(args.key(0))? else {
        reply.array(0);
        return Ok(());
    };
    let range = index_range(start, stop, list.len());
    reply.array(range.len());
    list.for_each(range.start, range.len(), |element| reply_element(element, reply));
    Ok(())
}
