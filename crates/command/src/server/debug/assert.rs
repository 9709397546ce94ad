//! DEBUG ASSERT: an assertion that does not hold.

use crate::prelude::*;

/// The row.
pub static ASSERT: Command = Command {
    name: "debug|assert",
    summary: "Ends the server by an assertion that does not hold.",
    since: "1.0.0",
    group: Group::Server,
    // As in Redis, what follows is not looked at.
    arity: Arity::at_least(2),
    note: "The log gets a report, and the process dies of a signal.",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(_: &mut ControlContext<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<(), CommandError> {
    let one = std::hint::black_box(1);
    assert!(one == 2);
    Ok(())
}
