//! RPUSHX: adds elements at the tail of a list that is there.

use collections::End;
use keyspace::WhenAbsent;

use super::lpush::push;
use super::lpushx::LPUSHX;
use crate::prelude::*;

pub(super) static RPUSHX: Command = Command {
    name: "rpushx",
    summary: "Adds elements at the tail of a list, if it is there.",
    example: "> RPUSHX boats oar\n(integer) 0\n\
        > RPUSH boats mast\n(integer) 1\n\
        > RPUSHX boats oar\n(integer) 2",
    handler: Handler::Write(run),
    ..LPUSHX
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    push(cx, args, End::Tail, WhenAbsent::Skip, reply)
}
