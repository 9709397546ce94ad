//! DEBUG SEGFAULT: an access to memory that may not be written.

use crate::host::Crash;
use crate::prelude::*;

/// The row.
pub static SEGFAULT: Command = Command {
    name: "debug|segfault",
    summary: "Ends the server by a write to memory that it may not write.",
    since: "1.0.0",
    group: Group::Server,
    // As in Redis, what follows is not looked at.
    arity: Arity::at_least(2),
    note: "The log gets a report, and the process dies of a signal.",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(cx: &mut ControlContext<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<(), CommandError> {
    cx.host.crash(Crash::Fault)
}
