//! SHM CLOSE: a lane of this connection ends; its session ends with it, at once.

use crate::prelude::*;

pub(super) static CLOSE: Command = Command {
    name: "shm|close",
    summary: "Ends a lane of this connection.",
    since: "7.2.4",
    group: Group::Server,
    arity: Arity::exactly(3),
    flags: Flags::NOSCRIPT.with(Flags::NO_MULTI),
    categories: Categories::CONNECTION,
    args: &[Arg::integer("lane")],
    example: "> SHM CLOSE 7\n...",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let lane = super::lane_number(args)?;
    cx.host.shared_memory()?.close_lane(cx.session.id, lane)?;
    reply.ok();
    Ok(Next::Done)
}
