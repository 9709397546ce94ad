//! CLIENT TRACKING: whether the session is told when keys change that it has read.

use base::number::parse_i64;

use crate::prelude::*;

const NOT_THERE: CommandError = CommandError::Fixed("ERR client-side caching is not supported");
const NO_SUCH_TARGET: CommandError =
    CommandError::Fixed("ERR The client ID you want redirect to does not exist");
const TWICE: CommandError =
    CommandError::Fixed("ERR A client can only redirect to a single other client");

pub(super) static TRACKING: Command = Command {
    name: "client|tracking",
    summary: "Turns the tracking of keys off, which it always is.",
    since: "6.0.0",
    group: Group::Connection,
    arity: Arity::at_least(3),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    args: &[
        Arg::one_of("status", &[Arg::word("on", "ON"), Arg::word("off", "OFF")]),
        Arg::integer("client-id").token("REDIRECT").within(1, 10).optional(),
        Arg::string("prefix").token("PREFIX").optional().multiple().token_each(),
        Arg::word("bcast", "BCAST").optional(),
        Arg::word("optin", "OPTIN").optional(),
        Arg::word("optout", "OPTOUT").optional(),
        Arg::word("noloop", "NOLOOP").optional(),
    ],
    note: "Client-side caching is not there: ON is refused.",
    example: "> CLIENT TRACKING OFF\nOK",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    check_options(cx, args)?;
    if args.is(2, "on") {
        return Err(NOT_THERE.into());
    }
    if !args.is(2, "off") {
        return Err(CommandError::Syntax.into());
    }
    reply.ok();
    Ok(Next::Done)
}

/// Refuses options that Redis refuses whether tracking goes on or off.
fn check_options(cx: &SessionContext<'_>, args: Args<'_>) -> Result<(), Unfinished> {
    let mut is_redirected = false;
    let mut index = 3;
    while index < args.len() {
        let has_value = index + 1 < args.len();
        index += if args.is(index, "redirect") && has_value {
            if is_redirected {
                return Err(TWICE.into());
            }
            is_redirected = true;
            let id = parse_i64(args.at(index + 1)).ok_or(CommandError::NotInteger)?;
            // Without a network there is nobody to redirect to.
            let clients = cx.host.clients().ok();
            let target = u64::try_from(id).ok().zip(clients).and_then(|(id, it)| it.one(id));
            target.ok_or(NO_SUCH_TARGET)?;
            2
        } else if args.is(index, "prefix") && has_value {
            2
        } else if ["bcast", "optin", "optout", "noloop"].iter().any(|word| args.is(index, word)) {
            1
        } else {
            return Err(CommandError::Syntax.into());
        };
    }
    Ok(())
}
