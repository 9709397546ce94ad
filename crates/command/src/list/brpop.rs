//! BRPOP: takes an element from the tail of the first list that has one; waits for one.

use collections::End;

use super::list_pop::pop_first;

use super::blpop::BLPOP;
use crate::prelude::*;

pub(super) static BRPOP: Command = Command {
    name: "brpop",
    summary: "Takes the last element of the first list that has one; waits for one.",
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > BRPOP ships boats 0.5\n1) \"boats\"\n2) \"mast\"\n\
        > BRPOP ships 0.01\n(nil)",
    handler: Handler::Write(run),
    ..BLPOP
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    pop_first(cx, args, reply, End::Tail)
}
