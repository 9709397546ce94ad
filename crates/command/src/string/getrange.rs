//! GETRANGE: a part of a string.

use crate::prelude::*;

/// The row.
pub static GETRANGE: Command = Command {
    name: "getrange",
    summary: "Returns the bytes of a string from one position to another, both included.",
    since: "2.4.0",
    complexity: "O(N), N being the returned bytes",
    group: Group::String,
    arity: Arity::exactly(4),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::integer("start").within(-50, 50),
        Arg::integer("end").within(-50, 50),
    ],
    example: "> SET lake deep\nOK\n> GETRANGE lake 1 2\n\"ee\"\n> GETRANGE lake -2 -1\n\"ep\"",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let [start, end] = [args.integer(2)?, args.integer(3)?];
    let value = cx.string(args.key(0))?.unwrap_or_default();
    reply.bulk(range_of(value, start, end));
    Ok(())
}

/// Returns the bytes of `value` from `start` to `end`, both included; negative positions count
/// from the end. Two negative positions in the wrong order are empty even where both lie before
/// the first byte.
fn range_of(value: &[u8], start: i64, end: i64) -> &[u8] {
    let length = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let position = |index: i64| if index < 0 { (index + length).max(0) } else { index };
    let first = position(start);
    let last = position(end).min(length - 1);
    if first > last { &[] } else { &value[first as usize..=last as usize] }
}
