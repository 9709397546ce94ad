//! MEMORY PURGE: memory that nothing uses goes back to the system.

use crate::prelude::*;

pub(super) static PURGE: Command = Command {
    name: "memory|purge",
    summary: "Gives memory that nothing uses back to the system.",
    since: "4.0.0",
    complexity: "Depends on how much memory is free",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::UNGUARDED,
    note: "Gives back segments of the arena that hold nothing, and what lies free in the \
           heap. It does not empty a segment that still holds something.",
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    example: "> MEMORY PURGE\nOK",
    handler: Handler::Session(|cx, _, reply| {
        cx.host.purge_memory();
        reply.ok();
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
