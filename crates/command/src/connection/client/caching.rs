//! CLIENT CACHING: whether the next request's keys are tracked.

use crate::prelude::*;

const NOT_TRACKING: CommandError = CommandError::Fixed(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
     OPTOUT mode enabled",
);

pub(super) static CACHING: Command = Command {
    name: "client|caching",
    summary: "Is refused: the session tracks no keys.",
    since: "6.0.0",
    group: Group::Connection,
    arity: Arity::exactly(3),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::one_of("mode", &[Arg::word("yes", "YES"), Arg::word("no", "NO")])],
    note: "Client-side caching is not there: tracking is always off.",
    example: "> CLIENT CACHING YES\n...",
    handler: Handler::Session(|_, _, _| Err(NOT_TRACKING.into())),
    ..Command::DEFAULT
};
