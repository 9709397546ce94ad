//! LPOP: takes elements from the head of a list.

use collections::End;

use super::list_pop::pop;

use crate::prelude::*;

pub(super) static LPOP: Command = Command {
    name: "lpop",
    summary: "Takes the first element of a list, or the first ones, and returns it.",
    since: "1.0.0",
    complexity: "O(N), N being the elements that are taken",
    group: Group::List,
    arity: Arity::at_least(2),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::integer("count").within(0, 10).optional().since("6.2.0")],
    history: &[("6.2.0", "Added the `count` argument.")],
    example: "> RPUSH boats oar mast keel\n(integer) 3\n\
        > LPOP boats\n\"oar\"\n\
        > LPOP boats 5\n1) \"mast\"\n2) \"keel\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    pop(cx, args, reply, End::Head, &LPOP)
}
