//! SHM SEAL: the peer has mapped a lane and sealed it, which is served from now on.

use super::close::CLOSE;
use crate::prelude::*;

pub(super) static SEAL: Command = Command {
    name: "shm|seal",
    summary: "Begins to serve a lane that this process has mapped and sealed.",
    example: "> SHM SEAL 7\n...",
    handler: Handler::Session(run),
    ..CLOSE
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let lane = super::lane_number(args)?;
    cx.host.shared_memory()?.seal_lane(cx.session.id, lane)?;
    reply.ok();
    Ok(Next::Done)
}
