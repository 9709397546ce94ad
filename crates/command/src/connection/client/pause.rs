//! CLIENT PAUSE: makes requests wait for a while.

use crate::host::Pause;
use crate::parse::timeout;
use crate::prelude::*;

const BAD_MODE: CommandError = CommandError::Fixed("ERR CLIENT PAUSE mode must be WRITE or ALL");

pub(super) static PAUSE: Command = Command {
    name: "client|pause",
    summary: "Lets the requests of all sessions, or those that may write, wait for a while.",
    since: "2.9.50",
    group: Group::Connection,
    arity: Arity::at_least(3),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    args: &[
        Arg::integer("timeout").within(0, 1),
        Arg::one_of("mode", &[Arg::word("write", "WRITE"), Arg::word("all", "ALL")])
            .optional()
            .since("6.2.0"),
    ],
    history: &[("6.2.0", "`CLIENT PAUSE WRITE` mode added along with the `mode` option.")],
    example: "> CLIENT PAUSE 0 WRITE\nOK",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let pause = match args.len() {
        3 => Pause::All,
        4 if args.is(3, "write") => Pause::Writes,
        4 if args.is(3, "all") => Pause::All,
        4 => return Err(BAD_MODE.into()),
        _ => return Err(CommandError::subcommand_syntax("CLIENT", args.at(1)).into()),
    };
    cx.host.clients()?.pause(pause, timeout::milliseconds(args, 2, cx.now)?);
    reply.ok();
    Ok(Next::Done)
}
