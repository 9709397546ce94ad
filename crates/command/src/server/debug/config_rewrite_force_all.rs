//! DEBUG CONFIG-REWRITE-FORCE-ALL: all options into the configuration file.

use crate::host::RewriteError;
use crate::prelude::*;

pub(super) static CONFIG_REWRITE_FORCE_ALL: Command = Command {
    name: "debug|config-rewrite-force-all",
    summary: "Writes all options to the configuration file, those that are as by default too.",
    since: "7.0.0",
    group: Group::Server,
    arity: Arity::exactly(2),
    example: "> DEBUG CONFIG-REWRITE-FORCE-ALL\n\
        (error) ERR CONFIG-REWRITE-FORCE-ALL failed: there is no configuration file",
    flags: Flags::UNGUARDED,
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(cx: &mut ControlContext<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    cx.host.process()?.config_rewrite_all().map_err(|error| {
        let reason = match &error {
            RewriteError::NoFile => "there is no configuration file",
            RewriteError::System(reason) => reason,
        };
        CommandError::text_of(&[b"ERR CONFIG-REWRITE-FORCE-ALL failed: ", reason.as_bytes()])
    })?;
    reply.ok();
    Ok(())
}
