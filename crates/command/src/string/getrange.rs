//! GETRANGE, and SUBSTR, its first name: a part of a string.

use std::ops::Range;

use super::reply::reply_part;
use crate::prelude::*;

pub(super) static GETRANGE: Command = Command {
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

pub(super) static SUBSTR: Command = Command {
    name: "substr",
    since: "1.0.0",
    deprecated: Some(("2.0.0", "`GETRANGE`")),
    example: "> SET lake deep\nOK\n> SUBSTR lake 1 2\n\"ee\"\n> SUBSTR lake -2 -1\n\"ep\"",
    ..GETRANGE
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let [start, end] = [args.integer(2)?, args.integer(3)?];
    let value = cx.string(args.key(0))?.unwrap_or_default();
    reply_part(cx.view, args.key(0), value, range_of(value.len(), start, end), reply);
    Ok(())
}

/// Returns the positions from `start` to `end`, both included, in a string of `length` bytes;
/// negative ones count from the end. Two negative ones in the wrong order are empty even where both
/// lie before the first byte.
fn range_of(length: usize, start: i64, end: i64) -> Range<usize> {
    let length = length as i64;
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let position = |index: i64| if index < 0 { (index + length).max(0) } else { index };
    let first = position(start);
    let last = position(end).min(length - 1);
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}
