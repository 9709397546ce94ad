//! CONFIG SET: other values for options.

use resp::RequestView;

use crate::handler::error::quoted;
use crate::host::ConfigError;
use crate::prelude::*;

pub(super) static SET: Command = Command {
    name: "config|set",
    summary: "Sets options, all or none.",
    since: "2.0.0",
    complexity: "O(N), N being the number of options that are set",
    group: Group::Server,
    arity: Arity::at_least(4),
    flags: Flags::ADMIN
        .with(Flags::NOSCRIPT)
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::UNGUARDED),
    args: &[Arg::block(
        "data",
        &[
            Arg::string("parameter").among(&["maxmemory"]),
            Arg::string("value").among(&["0", "1gb"]),
        ],
    )
    .multiple()],
    history: &[("7.0.0", "Added the ability to set multiple parameters in one call.")],
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    example: "> CONFIG SET maxmemory 1gb\nOK\n\
        > CONFIG GET maxmemory\n1) \"maxmemory\"\n2) \"1073741824\"",
    secrets: Some(is_secret),
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

/// The options whose values are secrets.
const SECRET_OPTIONS: [&str; 5] =
    ["requirepass", "masteruser", "masterauth", "tls-key-file-pass", "tls-client-key-file-pass"];

/// Every second argument from 3 on is a value; the one before it is its name.
fn is_secret(request: RequestView<'_>, index: usize) -> bool {
    let is_value = index >= 3 && !index.is_multiple_of(2);
    let is_named = |name: &str| request.at(index - 1).eq_ignore_ascii_case(name.as_bytes());
    is_value && SECRET_OPTIONS.into_iter().any(is_named)
}

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax.into());
    }
    let pairs: Vec<(&[u8], &[u8])> =
        (2..args.len()).step_by(2).map(|index| (args.at(index), args.at(index + 1))).collect();
    cx.host.config_set(cx.session, &pairs).map_err(refusal)?;
    reply.ok();
    Ok(Next::Done)
}

fn refusal(error: ConfigError) -> CommandError {
    match error {
        ConfigError::Unknown { name } => CommandError::text_of(&[
            b"ERR Unknown option or number of arguments for CONFIG SET - '",
            quoted(&name, usize::MAX),
            b"'",
        ]),
        ConfigError::Refused { name, reason } => CommandError::text_of(&[
            b"ERR CONFIG SET failed (possibly related to argument '",
            name.as_bytes(),
            b"') - ",
            reason.as_bytes(),
        ]),
    }
}
