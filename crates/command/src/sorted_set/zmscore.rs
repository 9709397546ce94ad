//! ZMSCORE: the scores of members.

use collections::SortedSet;

use crate::prelude::*;

pub(super) static ZMSCORE: Command = Command {
    name: "zmscore",
    summary: "Returns the scores of members of a sorted set.",
    since: "6.2.0",
    complexity: "O(N), N being the members that are asked for",
    group: Group::SortedSet,
    arity: Arity::at_least(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::part("member").multiple()],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZMSCORE depths reef bank\n1) \"5\"\n2) (nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let set = cx.view.collection::<SortedSet>(key)?;
    reply.array(args.len() - 2);
    for member in args.from(2) {
        match set.and_then(|set| set.score(member, cx.view.rules(key))) {
            Some(score) => reply.double(score),
            None => reply.null(),
        }
    }
    Ok(())
}
