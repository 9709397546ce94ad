//! WATCH: lets EXEC depend on keys.

use crate::prelude::*;

const INSIDE_MULTI: CommandError = CommandError::Fixed("ERR WATCH inside MULTI is not allowed");

pub(super) static WATCH: Command = Command {
    name: "watch",
    summary: "Makes EXEC run only if none of the keys has changed until then.",
    since: "2.2.0",
    complexity: "O(N), N being the number of keys",
    group: Group::Transactions,
    arity: Arity::at_least(2),
    flags: Flags::NOSCRIPT
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::FAST)
        .with(Flags::ALLOW_BUSY)
        .with(Flags::UNQUEUED),
    keys: &[KeySpec::all_from(1, KeyFlags::RO)],
    args: &[Arg::key("key").multiple()],
    example: "> WATCH lake\nOK\n\
        > SET lake deep\nOK\n\
        > MULTI\nOK\n\
        > SET lake wide\nQUEUED\n\
        > EXEC\n(nil)",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    if cx.session.is_queueing() {
        return Err(INSIDE_MULTI.into());
    }
    reply.ok();
    Ok(Next::Watch)
}
