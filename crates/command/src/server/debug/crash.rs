//! DEBUG SEGFAULT, PANIC, ASSERT and OOM: the ends of a server that go wrong, to test what it tells
//! of them.

use std::alloc::Layout;
use std::hint::black_box;

use crate::host::Crash;
use crate::prelude::*;

/// The row.
pub static ASSERT: Command = Command {
    name: "debug|assert",
    summary: "Ends the server by an assertion that does not hold.",
    handler: Handler::Control(assert),
    ..ROW
};

/// The row.
pub static OOM: Command = Command {
    name: "debug|oom",
    summary: "Ends the server for want of memory.",
    handler: Handler::Control(oom),
    ..ROW
};

/// The row.
pub static PANIC: Command = Command {
    name: "debug|panic",
    summary: "Ends the server by a failure that it found itself.",
    handler: Handler::Control(panic),
    ..ROW
};

/// The row.
pub static SEGFAULT: Command = Command {
    name: "debug|segfault",
    summary: "Ends the server by an access to memory that it may not write.",
    handler: Handler::Control(segfault),
    ..ROW
};

/// What the rows share. As in Redis what follows is not looked at.
const ROW: Command = Command {
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::at_least(2),
    note: "The log gets a report, and the process dies by a signal.",
    ..Command::DEFAULT
};

fn assert(_: &mut ControlContext<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<(), CommandError> {
    let one = black_box(1);
    assert!(one == 2);
    Ok(())
}

fn oom(_: &mut ControlContext<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<(), CommandError> {
    let layout = Layout::from_size_align(black_box(isize::MAX as usize), 1);
    std::alloc::handle_alloc_error(layout.expect("no larger one can be asked for"))
}

fn panic(cx: &mut ControlContext<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<(), CommandError> {
    cx.host.crash(Crash::Failure)
}

fn segfault(
    cx: &mut ControlContext<'_>,
    _: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<(), CommandError> {
    cx.host.crash(Crash::Fault)
}
