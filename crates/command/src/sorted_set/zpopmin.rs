//! ZPOPMIN: takes the members with the lowest scores.

use collections::Direction;

use super::score_pop::pop;

use super::zpopmax::ZPOPMAX;
use crate::prelude::*;

pub(super) static ZPOPMIN: Command = Command {
    name: "zpopmin",
    summary: "Takes the member with the lowest score, or several, and returns it.",
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZPOPMIN depths\n1) \"shore\"\n2) \"1\"",
    handler: Handler::Write(run),
    ..ZPOPMAX
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    pop(cx, args, reply, Direction::Up)
}
