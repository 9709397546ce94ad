//! RPUSH: adds elements at the tail of a list.

use collections::End;
use keyspace::WhenAbsent;

use super::lpush::{LPUSH, push};
use crate::prelude::*;

pub(super) static RPUSH: Command = Command {
    name: "rpush",
    summary: "Adds elements at the tail of a list, which is made where it is absent.",
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > LRANGE boats 0 -1\n1) \"oar\"\n2) \"mast\"",
    handler: Handler::Write(run),
    ..LPUSH
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    push(cx, args, End::Tail, WhenAbsent::Create, reply)
}
