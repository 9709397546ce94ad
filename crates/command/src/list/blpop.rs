//! BLPOP: takes an element from the head of the first list that has one; waits for one.

use collections::End;

use super::list_pop::pop_first;

use crate::prelude::*;

pub(super) static BLPOP: Command = Command {
    name: "blpop",
    summary: "Takes the first element of the first list that has one; waits for one.",
    since: "2.0.0",
    complexity: "O(N), N being the number of keys",
    group: Group::List,
    arity: Arity::at_least(3),
    flags: Flags::BLOCKING,
    keys: &[KeySpec::all_but_last_from(
        1,
        KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE),
    )],
    args: &[Arg::key("key").multiple(), Arg::double("timeout").only_within(1, 2)],
    history: &[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")],
    example: "> RPUSH boats oar mast\n(integer) 2\n\
        > BLPOP ships boats 0.5\n1) \"boats\"\n2) \"oar\"\n\
        > BLPOP ships 0.01\n(nil)",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    pop_first(cx, args, reply, End::Head)
}
