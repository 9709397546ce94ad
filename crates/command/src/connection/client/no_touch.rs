//! CLIENT NO-TOUCH: whether what the session looks up counts as used.

use super::switch;
use crate::prelude::*;

/// The row.
pub static NO_TOUCH: Command = Command {
    name: "client|no-touch",
    summary: "Lets what the session looks up not count as used, or count again.",
    since: "7.2.0",
    group: Group::Connection,
    arity: Arity::exactly(3),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")])],
    example: "> CLIENT NO-TOUCH ON\nOK",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, CommandError> {
    cx.session.leaves_no_touch = switch(args, 2)?;
    reply.ok();
    Ok(Next::Done)
}
