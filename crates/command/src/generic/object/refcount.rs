//! OBJECT REFCOUNT: how many keys share a value.

use base::number::parse_i64;
use keyspace::text_of;

use crate::prelude::*;

/// Integers below it are shared by all keys in Redis...
const SHARED_INTEGER_MAX: i64 = 10_000;
/// ...and have so many references there.
const SHARED_COUNT: i64 = i32::MAX as i64;

pub(super) static REFCOUNT: Command = Command {
    name: "object|refcount",
    summary: "Returns the number of references to the value at a key.",
    since: "2.2.3",
    arity: Arity::exactly(3),
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    args: &[Arg::key("key")],
    note: "No two keys share a value. Integers from 0 to 9999 are said to be shared, as by Redis \
           without an LRU or LFU policy.",
    tips: &["nondeterministic_output"],
    example: "> SET lake deep\nOK\n> OBJECT REFCOUNT lake\n(integer) 1",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    match cx.view.peek(args.key(0)) {
        Some(entry) if entry.encoding_name() == "int" => {
            let number = parse_i64(text_of(&entry)).unwrap_or(SHARED_INTEGER_MAX);
            let is_shared = (0..SHARED_INTEGER_MAX).contains(&number);
            reply.integer(if is_shared { SHARED_COUNT } else { 1 });
        }
        Some(_) => reply.integer(1),
        None => reply.null(),
    }
    Ok(())
}
