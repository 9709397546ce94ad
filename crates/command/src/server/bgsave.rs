//! BGSAVE: refused, as nothing can be saved yet.

use crate::prelude::*;

pub(super) static BGSAVE: Command = Command {
    name: "bgsave",
    summary: "Saves the dataset in the background.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::at_least(1),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING),
    args: &[Arg::word("schedule", "SCHEDULE").optional().since("3.2.2")],
    history: &[("3.2.2", "Added the `SCHEDULE` option.")],
    note: "Refused: nothing can be saved yet.",
    example: "> BGSAVE\n(error) ERR nothing can be saved: all data are in memory only",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(_: &mut SessionContext<'_>, args: Args<'_>, _: &mut Reply<'_>) -> Result<Next, Unfinished> {
    if args.len() > 2 || args.from(1).any(|option| !option.eq_ignore_ascii_case(b"SCHEDULE")) {
        return Err(CommandError::Syntax.into());
    }
    Err(CommandError::NOTHING_SAVED.into())
}
