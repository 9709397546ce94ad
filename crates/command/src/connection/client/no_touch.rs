//! CLIENT NO-TOUCH: whether what the session looks up counts as used.

use super::no_evict::NO_EVICT;
use super::switch;
use crate::prelude::*;

pub(super) static NO_TOUCH: Command = Command {
    name: "client|no-touch",
    summary: "Lets what the session looks up not count as used, or count again.",
    since: "7.2.0",
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    example: "> CLIENT NO-TOUCH ON\nOK",
    handler: Handler::Session(run),
    ..NO_EVICT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    cx.session.leaves_no_touch = switch(args, 2)?;
    reply.ok();
    Ok(Next::Done)
}
