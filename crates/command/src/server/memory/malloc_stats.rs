//! MEMORY MALLOC-STATS: what the allocators tell of themselves.

use crate::prelude::*;

pub(super) static MALLOC_STATS: Command = Command {
    name: "memory|malloc-stats",
    summary: "Returns what the allocators tell of themselves, for people.",
    since: "4.0.0",
    complexity: "O(1)",
    group: Group::Server,
    arity: Arity::exactly(2),
    flags: Flags::UNGUARDED,
    note: "The allocator of the data is the arena, so the text is not jemalloc's.",
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    example: "> MEMORY MALLOC-STATS\n...",
    handler: Handler::Session(|cx, _, reply| {
        reply.verbatim(*b"txt", cx.host.allocator_text());
        Ok(Next::Done)
    }),
    ..Command::DEFAULT
};
