//! DEBUG OOM: memory that nobody has.

use std::alloc::Layout;
use std::hint::black_box;

use crate::prelude::*;

/// The row.
pub static OOM: Command = Command {
    name: "debug|oom",
    summary: "Ends the server for want of memory.",
    since: "1.0.0",
    group: Group::Server,
    // As in Redis, what follows is not looked at.
    arity: Arity::at_least(2),
    note: "The log gets a report, and the process dies of a signal.",
    handler: Handler::Control(run),
    ..Command::DEFAULT
};

fn run(_: &mut ControlContext<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<(), CommandError> {
    let layout = Layout::from_size_align(black_box(isize::MAX as usize), 1);
    std::alloc::handle_alloc_error(layout.expect("no larger one can be asked for"))
}
