//! LREM: removes elements that are equal.

use collections::End;

use crate::prelude::*;

pub(super) static LREM: Command = Command {
    name: "lrem",
    summary: "Removes elements that equal a given one, from either end on, or all of them.",
    since: "1.0.0",
    complexity: "O(N), N being the length of the list",
    group: Group::List,
    arity: Arity::exactly(4),
    flags: Flags::EFFECT,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::integer("count").within(-5, 5), Arg::part("element")],
    example: "> RPUSH boats oar mast oar oar\n(integer) 4\n\
        > LREM boats -2 oar\n(integer) 2\n\
        > LRANGE boats 0 -1\n1) \"oar\"\n2) \"mast\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let count = args.integer_in(2, -i64::MAX, i64::MAX)?;
    let end = if count < 0 { End::Tail } else { End::Head };
    let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let removed = cx.view.remove_elements(args.key(0), end, most, args.at(3))?;
    reply.integer(removed as i64);
    Ok(())
}
