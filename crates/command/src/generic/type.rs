//! TYPE: the type of a value.

use keyspace::ValueType;

use crate::prelude::*;

pub(super) static TYPE: Command = Command {
    name: "type",
    summary: "Returns the type of the value at a key, none where there is none.",
    since: "1.0.0",
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO)],
    args: &[Arg::key("key")],
    example: "> SET lake deep\nOK\n> TYPE lake\nstring\n> TYPE river\nnone",
    handler: Handler::Read(|cx, args, reply| {
        reply.simple(
            cx.view.peek(args.key(0)).map_or("none", |entry| type_name(entry.value_type())),
        );
        Ok(())
    }),
    ..Command::DEFAULT
};

/// Returns the name of `value_type` in TYPE and SCAN.
pub(super) fn type_name(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::String => "string",
        ValueType::List => "list",
        ValueType::Set => "set",
        ValueType::SortedSet => "zset",
        ValueType::Hash => "hash",
        ValueType::Stream => "stream",
    }
}

/// Returns the type that TYPE calls `name`, in any case.
pub(crate) fn type_named(name: &[u8]) -> Option<ValueType> {
    use ValueType::{Hash, List, Set, SortedSet, Stream, String};
    let all = [String, List, Set, SortedSet, Hash, Stream];
    all.into_iter().find(|it| name.eq_ignore_ascii_case(type_name(*it).as_bytes()))
}
