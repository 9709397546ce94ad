//! RPOP: takes elements from the tail of a list.

use collections::End;

use super::list_pop::pop;

use super::lpop::LPOP;
use crate::prelude::*;

pub(super) static RPOP: Command = Command {
    name: "rpop",
    summary: "Takes the last element of a list, or the last ones, and returns it.",
    example: "> RPUSH boats oar mast keel\n(integer) 3\n\
        > RPOP boats\n\"keel\"\n\
        > RPOP boats 5\n1) \"mast\"\n2) \"oar\"",
    handler: Handler::Write(run),
    ..LPOP
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    pop(cx, args, reply, End::Tail, &RPOP)
}
