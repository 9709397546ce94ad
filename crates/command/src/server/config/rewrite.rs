//! CONFIG REWRITE: the options into the configuration file.

use crate::host::RewriteError;
use crate::prelude::*;

const NO_FILE: CommandError =
    CommandError::Fixed("ERR The server is running without a config file");

pub(super) static REWRITE: Command = Command {
    name: "config|rewrite",
    summary: "Writes the options that differ from the configuration file back to it.",
    since: "2.8.0",
    complexity: "O(N), N being the number of lines of the file and of options",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::ADMIN
        .with(Flags::NOSCRIPT)
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::UNGUARDED),
    note: "Lines whose option is as they say stay to the letter, where Redis writes them anew.",
    example: "> CONFIG REWRITE\n(error) ERR The server is running without a config file",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    cx.host.process()?.config_rewrite().map_err(|error| match error {
        RewriteError::NoFile => NO_FILE,
        RewriteError::System(reason) => {
            CommandError::text_of(&[b"ERR Rewriting config file: ", reason.as_bytes()])
        }
    })?;
    reply.ok();
    Ok(Next::Done)
}
