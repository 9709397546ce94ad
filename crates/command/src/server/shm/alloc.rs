//! SHM ALLOC: room for a value in the upload memory of this connection, or of a lane's parent.
//!
//! The reply is an offset in the range of the segments. A client that knows the size of its next
//! value sends the next ALLOC behind a COMMIT: then a value costs one round trip.

use super::close::CLOSE;
use crate::prelude::*;

pub(super) static ALLOC: Command = Command {
    name: "shm|alloc",
    summary: "Returns the offset of so many bytes of upload memory, to be written.",
    flags: Flags::NOSCRIPT.with(Flags::NO_MULTI).with(Flags::FAST),
    args: &[Arg::integer("bytes")],
    example: "> SHM ALLOC 4194304\n...",
    handler: Handler::Session(run),
    ..CLOSE
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let bytes = super::natural(args, 2)?;
    let offset = cx.host.shared_memory()?.allocate_upload(cx.session.uploader, bytes)?;
    reply.integer(offset as i64);
    Ok(Next::Done)
}
