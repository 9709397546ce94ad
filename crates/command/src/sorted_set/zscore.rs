//! ZSCORE: the score of a member.

use collections::SortedSet;

use crate::prelude::*;

pub(super) static ZSCORE: Command = Command {
    name: "zscore",
    summary: "Returns the score of a member of a sorted set.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: Arity::exactly(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::part("member")],
    example: "> ZADD depths 1 shore 5 reef\n(integer) 2\n\
        > ZSCORE depths reef\n\"5\"\n\
        > ZSCORE depths bank\n(nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let set = cx.view.collection::<SortedSet>(key)?;
    match set.and_then(|set| set.score(args.at(2), cx.view.rules(key))) {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
    Ok(())
}
