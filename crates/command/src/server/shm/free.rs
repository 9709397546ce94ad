//! SHM FREE: room for a value that is not wanted any more and was not committed.

use super::close::CLOSE;
use crate::prelude::*;

/// The row.
pub static FREE: Command = Command {
    name: "shm|free",
    summary: "Gives upload memory back that was allocated and not committed.",
    flags: Flags::NOSCRIPT.with(Flags::NO_MULTI).with(Flags::FAST),
    args: &[Arg::integer("offset")],
    example: "> SHM FREE 1030792151040\n...",
    handler: Handler::Session(run),
    ..CLOSE
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, CommandError> {
    let offset = super::offset(args, 2)?;
    cx.host.free_upload(cx.session.uploader, offset).map_err(CommandError::from)?;
    reply.ok();
    Ok(Next::Done)
}
