//! DEBUG PANIC: a failure that the server finds itself.

use crate::host::Crash;
use crate::prelude::*;

/// The row.
pub static PANIC: Command = Command {
    name: "debug|panic",
    summary: "Ends the server by a failure that it finds itself.",
    since: "1.0.0",
    group: Group::Server,
    // As in Redis, what follows is not looked at.
    arity: Arity::at_least(2),
    note: "The log gets a report, and the process dies of a signal.",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(cx: &mut ControlContext<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<(), CommandError> {
    cx.host.crash(Crash::Failure)
}
