//! SHM FREE: room for a value that is not wanted any more and was not committed.

use super::alloc::ALLOC;
use crate::prelude::*;

pub(super) static FREE: Command = Command {
    name: "shm|free",
    summary: "Gives upload memory back that was allocated and not committed.",
    args: &[Arg::integer("offset")],
    example: "> SHM FREE 1030792151040\n...",
    handler: Handler::Session(run),
    ..ALLOC
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let offset = super::natural(args, 2)?;
    cx.host.shared_memory()?.free_upload(cx.session.uploader, offset)?;
    reply.ok();
    Ok(Next::Done)
}
