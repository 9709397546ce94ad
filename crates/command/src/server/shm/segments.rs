//! SHM SEGMENTS: which segments there are, and descriptors of those that the peer does not have.
//!
//! The reply is a map: `epoch` (the arena's segment epoch, as of which the list is complete),
//! `segments` (an array of index, serial for each, serials ascending), `descriptors` (how many
//! come with the reply). The descriptors are those of the first segments whose serial is above the
//! peer's; there may be more than one reply can carry, so the peer asks again until it has all.
//!
//! The first request says that the peer has mapped its pin table and sealed it. Until the server
//! has brought its pages there are no segments, and the peer asks again.

use crate::host::MemorySegments;
use crate::prelude::*;

pub(super) static SEGMENTS: Command = Command {
    name: "shm|segments",
    summary: "Returns the data's segments, with descriptors of those made after a serial.",
    since: "7.2.4",
    complexity: "O(N), N being the number of segments",
    group: Group::Server,
    arity: Arity::exactly(3),
    flags: Flags::NOSCRIPT.with(Flags::NO_MULTI),
    categories: Categories::CONNECTION.with(Categories::DANGEROUS),
    args: &[Arg::integer("known-serial").within(0, 1000)],
    example: "> SHM SEGMENTS 0\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let known = super::natural(args, 2)?;
    let segments = cx.host.shared_memory()?.memory_segments(cx.session.id, known)?;
    let MemorySegments { epoch, live, descriptor_count } = segments;
    reply.map(3);
    reply.bulk("epoch");
    reply.integer(epoch as i64);
    reply.bulk("segments");
    reply.array(live.len() * 2);
    for (index, serial) in live {
        reply.integer(i64::from(index));
        reply.integer(serial as i64);
    }
    reply.bulk("descriptors");
    reply.integer(descriptor_count as i64);
    Ok(Next::Done)
}
