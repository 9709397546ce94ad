//! XINFO CONSUMERS: the consumers of a group.

use super::{KEY, existing, no_group_of};
use crate::prelude::*;
use crate::stream::GROUP;

pub(super) static CONSUMERS: Command = Command {
    name: "xinfo|consumers",
    summary: "Returns the consumers of a group.",
    since: "5.0.0",
    group: Group::Stream,
    arity: Arity::exactly(4),
    keys: &[KeySpec::at(KEY, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), GROUP],
    history: &[("7.2.0", "Added the `inactive` field, and changed the meaning of `idle`.")],
    tips: &["nondeterministic_output"],
    example: "> XGROUP CREATE river readers $ MKSTREAM\nOK\n\
        > XINFO CONSUMERS river readers\n(empty array)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (stream, name, now) = (existing(cx, args)?, args.at(3), cx.now().0);
    let group = stream.group(name).ok_or_else(|| no_group_of(args.key(0).bytes, name))?;
    reply.array(group.consumer_count());
    for (_, consumer) in group.consumers() {
        if reply.is_cut() {
            break;
        }
        reply.map(4);
        reply.bulk("name");
        reply.bulk(consumer.name());
        reply.bulk("pending");
        reply.integer(consumer.pending_count() as i64);
        reply.bulk("idle");
        reply.integer(now.wrapping_sub(consumer.seen_at.0).max(0));
        reply.bulk("inactive");
        reply.integer(consumer.active_at.map_or(-1, |at| now.wrapping_sub(at.0)));
    }
    Ok(())
}
