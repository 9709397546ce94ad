//! CLIENT REPLY: whether the session gets replies.

use crate::handler::session::Replies;
use crate::prelude::*;

pub(super) static REPLY: Command = Command {
    name: "client|reply",
    summary: "Chooses whether the session gets replies: all, none, or not the next one.",
    since: "3.2.0",
    group: Group::Connection,
    arity: Arity::exactly(3),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::one_of(
        "action",
        &[Arg::word("on", "ON"), Arg::word("off", "OFF"), Arg::word("skip", "SKIP")],
    )],
    example: "> CLIENT REPLY ON\nOK",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let is_off = cx.session.replies == Replies::Off;
    match args.at(2).to_ascii_lowercase().as_slice() {
        b"on" => {
            cx.session.replies = Replies::On;
            reply.ok();
        }
        b"off" => cx.session.replies = Replies::Off,
        b"skip" if is_off => {}
        b"skip" => cx.session.replies = Replies::SkipNext,
        _ => return Err(CommandError::Syntax.into()),
    }
    Ok(Next::Done)
}
