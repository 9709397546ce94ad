//! ZREVRANK: the rank of a member.

use collections::Direction;

use super::score_range::reply_rank;

use super::zrank::ZRANK;
use crate::prelude::*;

pub(super) static ZREVRANK: Command = Command {
    name: "zrevrank",
    summary: "Returns the rank of a member of a sorted set from the highest score.",
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZREVRANK depths reef\n(integer) 0\n\
        > ZREVRANK depths reef WITHSCORE\n1) (integer) 0\n2) \"5\"",
    handler: Handler::Read(run),
    ..ZRANK
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    reply_rank(cx, args, Direction::Down, &ZREVRANK, reply)
}
