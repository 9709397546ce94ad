//! AUTH: who the session is.

use crate::prelude::*;

/// The user of AUTH with a password alone.
const DEFAULT_USER: &[u8] = b"default";
const NO_PASSWORD: CommandError = CommandError::Fixed(
    "ERR AUTH <password> called without any password configured for the default user. Are you \
     sure your configuration is correct?",
);

pub(super) static AUTH: Command = Command {
    name: "auth",
    summary: "Authenticates the session.",
    since: "1.0.0",
    group: Group::Connection,
    arity: Arity::at_least(2),
    flags: Flags::NOSCRIPT
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::FAST)
        .with(Flags::NO_AUTH)
        .with(Flags::ALLOW_BUSY),
    args: &[
        Arg::string("username").among(&["default"]).optional().since("6.0.0"),
        Arg::string("password"),
    ],
    secrets: Some(|_, index| index > 0),
    history: &[("6.0.0", "Added ACL style (username and password).")],
    example: "> AUTH default anything\nOK",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let (user, password) = match args.len() {
        2 if !cx.host.requires_password() => return Err(NO_PASSWORD.into()),
        2 => (DEFAULT_USER, args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(CommandError::Syntax.into()),
    };
    if !cx.host.authenticate(user, password) {
        return Err(CommandError::WRONG_PASSWORD.into());
    }
    cx.session.authenticated = true;
    reply.ok();
    Ok(Next::Done)
}
