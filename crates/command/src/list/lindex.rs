//! LINDEX: one element of a list.

use base::index_range::index_of;
use collections::List;

use crate::handler::element::reply_element;
use crate::prelude::*;

pub(super) static LINDEX: Command = Command {
    name: "lindex",
    summary: "Returns the element of a list at an index.",
    since: "1.0.0",
    complexity: "O(N), N being the distance of the element from the nearer end, in listpacks",
    group: Group::List,
    arity: Arity::exactly(3),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::integer("index").within(-10, 10)],
    example: "> RPUSH boats oar mast keel\n(integer) 3\n\
        > LINDEX boats -1\n\"keel\"\n\
        > LINDEX boats 9\n(nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let Some(list) = cx.view.collection::<List>(args.key(0))? else {
        reply.null();
        return Ok(());
    };
    match index_of(args.integer(2)?, list.len()).and_then(|index| list.get(index)) {
        Some(element) => reply_element(element, reply),
        None => reply.null(),
    }
    Ok(())
}
