//! XINFO GROUPS: the groups of a stream.

use super::{KEY, existing, reply_progress};
use crate::prelude::*;

pub(super) static GROUPS: Command = Command {
    name: "xinfo|groups",
    summary: "Returns the groups of a stream.",
    since: "5.0.0",
    group: Group::Stream,
    arity: Arity::exactly(3),
    keys: &[KeySpec::at(KEY, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    history: &[("7.0.0", "Added the `entries-read` and `lag` fields")],
    example: "> XGROUP CREATE river readers $ MKSTREAM\nOK\n\
        > XINFO GROUPS river\n...",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let stream = existing(cx, args)?;
    reply.array(stream.group_count());
    for (name, group) in stream.groups() {
        if reply.is_cut() {
            break;
        }
        reply.map(6);
        reply.bulk("name");
        reply.bulk(name);
        reply.bulk("consumers");
        reply.integer(group.consumer_count() as i64);
        reply.bulk("pending");
        reply.integer(group.pending_count() as i64);
        reply_progress(group, stream.log(), reply);
    }
    Ok(())
}
