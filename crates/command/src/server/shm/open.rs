//! SHM OPEN: the peer has mapped upload memory and sealed it, which can be used from then on.
//!
//! That may take a while. The reply is 1 once that is done, and 0 before: the peer asks again.

use super::close::CLOSE;
use crate::prelude::*;

pub(super) static OPEN: Command = Command {
    name: "shm|open",
    summary: "Opens upload memory that its client has mapped and sealed; returns 1 once done.",
    args: &[Arg::integer("offset")],
    example: "> SHM OPEN 1030792151040\n...",
    handler: Handler::Session(run),
    ..CLOSE
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let offset = super::natural(args, 2)?;
    let is_open = cx.host.shared_memory()?.seal_upload(cx.session.id, offset)?;
    reply.integer(i64::from(is_open));
    Ok(Next::Done)
}
