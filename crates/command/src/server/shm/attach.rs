//! SHM ATTACH: the session gets a table of pins and may ask for the segments.
//!
//! The reply is a map: `version`, `span-bytes`, `segment-bytes`, `pin-bytes`, all integers. The
//! descriptor of the pin table comes with its first byte, so the peer sends nothing else until it
//! has the reply, and receives with room for descriptors.

use crate::host::MemoryGeometry;
use crate::prelude::*;

/// The version of what SHM's replies say and of what their descriptors hold.
const VERSION: u64 = 4;

pub(super) static ATTACH: Command = Command {
    name: "shm|attach",
    summary: "Begins to share the data's memory with this process, for reading.",
    since: "7.2.4",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::NOSCRIPT.with(Flags::NO_MULTI),
    categories: Categories::CONNECTION.with(Categories::DANGEROUS),
    example: "> SHM ATTACH\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let geometry = cx.host.shared_memory()?.attach_memory(cx.session.id)?;
    let MemoryGeometry { span_bytes, segment_bytes, pin_bytes } = geometry;
    let numbers = [
        ("version", VERSION),
        ("span-bytes", span_bytes),
        ("segment-bytes", segment_bytes),
        ("pin-bytes", pin_bytes),
    ];
    super::reply_numbers(reply, &numbers);
    Ok(Next::Done)
}
