//! DEBUG ASSERT, OOM, PANIC and SEGFAULT: ways in which a server ends that nobody asked for.

use std::alloc::Layout;
use std::hint::black_box;

use crate::host::Crash;
use crate::prelude::*;

/// What the rows have in common.
const ROW: Command = Command {
    since: "1.0.0",
    group: Group::Server,
    // As in Redis, what follows is not looked at.
    arity: Arity::at_least(2),
    note: "The log gets a report, and the process dies of a signal.",
    ..Command::DEFAULT
};

pub(super) static ASSERT: Command = Command {
    name: "debug|assert",
    summary: "Ends the server by an assertion that does not hold.",
    handler: Handler::Control(|cx, _, _| {
        cx.host.process()?;
        let one = black_box(1);
        assert!(one == 2);
        Ok(())
    }),
    ..ROW
};

pub(super) static OOM: Command = Command {
    name: "debug|oom",
    summary: "Ends the server for want of memory.",
    handler: Handler::Control(|cx, _, _| {
        cx.host.process()?;
        let layout = Layout::from_size_align(black_box(isize::MAX as usize), 1);
        std::alloc::handle_alloc_error(layout.expect("no larger one can be asked for"))
    }),
    ..ROW
};

pub(super) static PANIC: Command = Command {
    name: "debug|panic",
    summary: "Ends the server by a failure that it finds itself.",
    handler: Handler::Control(|cx, _, _| cx.host.process()?.crash(Crash::Failure)),
    ..ROW
};

pub(super) static SEGFAULT: Command = Command {
    name: "debug|segfault",
    summary: "Ends the server by a write to memory that it may not write.",
    handler: Handler::Control(|cx, _, _| cx.host.process()?.crash(Crash::Fault)),
    ..ROW
};
