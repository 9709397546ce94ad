//! CLIENT SETINFO: the library of the client.

use crate::handler::client_name::{ClientNames, is_printable};
use crate::handler::error::quoted;
use crate::prelude::*;

pub(super) static SETINFO: Command = Command {
    name: "client|setinfo",
    summary: "Tells the name or the version of the client library.",
    since: "7.2.0",
    group: Group::Connection,
    arity: Arity::exactly(4),
    flags: Flags::NOSCRIPT.with(Flags::LOADING).with(Flags::STALE),
    args: &[Arg::one_of(
        "attr",
        &[
            Arg::string("libname").token("lib-name").among(&["lib"]),
            Arg::string("libver").token("lib-ver").among(&["1.0"]),
        ],
    )],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    example: "> CLIENT SETINFO lib-name lake\nOK",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let (attribute, value) = (args.at(2), args.at(3));
    let set = match attribute.to_ascii_lowercase().as_slice() {
        b"lib-name" => ClientNames::set_library,
        b"lib-ver" => ClientNames::set_library_version,
        _ => {
            let shown = quoted(attribute, usize::MAX);
            return Err(CommandError::text_of(&[b"ERR Unrecognized option '", shown, b"'"]).into());
        }
    };
    if !is_printable(value) {
        let shown = quoted(attribute, usize::MAX);
        let rule = b" cannot contain spaces, newlines or special characters.";
        return Err(CommandError::text_of(&[b"ERR ", shown, rule]).into());
    }
    set(&mut cx.session.names, value);
    reply.ok();
    Ok(Next::Done)
}
