//! LPUSHX: adds elements at the head of a list that is there.

use collections::End;
use keyspace::WhenAbsent;

use super::lpush::{LPUSH, push};
use crate::prelude::*;

pub(super) static LPUSHX: Command = Command {
    name: "lpushx",
    summary: "Adds elements at the head of a list, if it is there.",
    since: "2.2.0",
    history: &[("4.0.0", "Accepts multiple `element` arguments.")],
    example: "> LPUSHX boats oar\n(integer) 0\n\
        > RPUSH boats mast\n(integer) 1\n\
        > LPUSHX boats oar\n(integer) 2",
    handler: Handler::Write(run),
    ..LPUSH
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    push(cx, args, End::Head, WhenAbsent::Skip, reply)
}
