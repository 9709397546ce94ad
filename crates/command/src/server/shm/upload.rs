//! SHM UPLOAD: memory that this process writes values to before they have a key.
//!
//! The reply is a map: `offset` (where the memory starts in the range of the segments), `bytes`,
//! `segment-bytes`, `adopt` (1 where values may stay in it), `descriptors` (how many come with the
//! reply: one for each segment, in order). Nothing can be put there before SHM OPEN.

use crate::host::UploadOffer;
use crate::prelude::*;

pub(super) static UPLOAD: Command = Command {
    name: "shm|upload",
    summary: "Makes memory of at least so many bytes that this process writes values to.",
    since: "7.2.4",
    group: Group::Server,
    arity: Arity::exactly(3),
    flags: Flags::NOSCRIPT.with(Flags::NO_MULTI).with(Flags::DENYOOM),
    categories: Categories::CONNECTION,
    args: &[Arg::integer("bytes")],
    example: "> SHM UPLOAD 16777216\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let bytes = super::natural(args, 2)?;
    let offer = cx.host.shared_memory()?.open_upload(cx.session.id, bytes)?;
    let UploadOffer { offset, bytes, segment_bytes, may_adopt, descriptor_count } = offer;
    let numbers = [
        ("offset", offset),
        ("bytes", bytes),
        ("segment-bytes", segment_bytes),
        ("adopt", u64::from(may_adopt)),
        ("descriptors", descriptor_count as u64),
    ];
    super::reply_numbers(reply, &numbers);
    Ok(Next::Done)
}
