//! XRANGE and XREVRANGE: the entries of a stream from one identity to another.

use collections::{Direction, Stream};

use super::{range_end, range_start, reply_entries};
use crate::prelude::*;

const COUNT: Arg = Arg::integer("count").token("COUNT").optional().within(-1, 6);
const BOUNDS: &[&str] = &["-", "+", "1", "2-0", "3-1", "4-0", "4-2", "(2-0", "(4-1", "(4"];

pub(super) static XRANGE: Command = Command {
    name: "xrange",
    summary: "Returns the entries of a stream from one identity to another.",
    since: "5.0.0",
    complexity: "O(log(M)+N), M being the number of entries and N that of those returned",
    group: Group::Stream,
    arity: Arity::at_least(4),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::string("start").among(BOUNDS),
        Arg::string("end").among(BOUNDS),
        COUNT,
    ],
    history: &[("6.2.0", "Added exclusive ranges.")],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XADD river 1-2 level 8\n\"1-2\"\n\
        > XRANGE river (1-1 +\n1) 1) \"1-2\"\n   2) 1) \"level\"\n      2) \"8\"",
    handler: Handler::Read(|cx, args, reply| run(cx, args, Direction::Up, reply)),
    ..Command::DEFAULT
};

pub(super) static XREVRANGE: Command = Command {
    name: "xrevrange",
    summary: "Returns the entries of a stream from one identity down to another.",
    args: &[
        Arg::key("key"),
        Arg::string("end").among(BOUNDS),
        Arg::string("start").among(BOUNDS),
        COUNT,
    ],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XADD river 1-2 level 8\n\"1-2\"\n\
        > XREVRANGE river + - COUNT 1\n1) 1) \"1-2\"\n   2) 1) \"level\"\n      2) \"8\"",
    handler: Handler::Read(|cx, args, reply| run(cx, args, Direction::Down, reply)),
    ..XRANGE
};

fn run(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    direction: Direction,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let (first, last) = if direction == Direction::Up { (2, 3) } else { (3, 2) };
    let (start, end) = (range_start(args, first)?, range_end(args, last)?);
    let mut count = None;
    let mut index = 4;
    while index < args.len() {
        if !args.is(index, "COUNT") || index + 1 == args.len() {
            return Err(CommandError::Syntax.into());
        }
        count = Some(args.integer(index + 1)?);
        index += 2;
    }
    let Some(stream) = cx.view.collection::<Stream>(args.key(0))? else {
        reply.array(0);
        return Ok(());
    };
    let entries = stream.log().entries(start, end, direction);
    match count {
        None => reply_entries(entries, 0, reply),
        Some(count @ 1..) => reply_entries(entries, count as u64, reply),
        Some(_) => reply.null_array(),
    }
    Ok(())
}
