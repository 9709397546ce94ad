//! CLIENT UNBLOCK: ends the wait of another session.

use crate::handler::outcome::Wake;
use crate::prelude::*;

const BAD_REASON: CommandError =
    CommandError::Fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");

pub(super) static UNBLOCK: Command = Command {
    name: "client|unblock",
    summary: "Ends the wait of a session, as if its time had passed or with an error.",
    since: "5.0.0",
    complexity: "O(log N), N being the number of sessions",
    group: Group::Connection,
    arity: Arity::at_least(3),
    flags: Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE),
    args: &[
        Arg::integer("client-id").within(1, 10),
        Arg::one_of(
            "unblock-type",
            &[Arg::word("timeout", "TIMEOUT"), Arg::word("error", "ERROR")],
        )
        .optional(),
    ],
    example: "> CLIENT UNBLOCK 100 ERROR\n(integer) 0",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let wake = match args.len() {
        3 => Wake::TimedOut,
        4 if args.is(3, "timeout") => Wake::TimedOut,
        4 if args.is(3, "error") => Wake::Refused,
        4 => return Err(BAD_REASON.into()),
        _ => return Err(CommandError::subcommand_syntax("CLIENT", args.at(1)).into()),
    };
    let id = args.integer(2)?;
    let clients = cx.host.clients()?;
    let is_woken = u64::try_from(id).is_ok_and(|id| clients.unblock(id, wake));
    reply.integer(i64::from(is_woken));
    Ok(Next::Done)
}
