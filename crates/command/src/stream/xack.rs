//! XACK: end that entries are pending.

use collections::{Stream, StreamId};

use super::{GROUP, IDS, strict_id};
use crate::prelude::*;

pub(super) static XACK: Command = Command {
    name: "xack",
    summary: "Acknowledges entries that a group was given; returns how many were pending.",
    since: "5.0.0",
    complexity: "O(log(M)) for each identity, M being the number of pending entries",
    group: Group::Stream,
    arity: Arity::at_least(4),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), GROUP, Arg::string("id").among(IDS).multiple()],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XGROUP CREATE river readers 0\nOK\n\
        > XREADGROUP GROUP readers ada STREAMS river >\n\
        1) 1) \"river\"\n   2) 1) 1) \"1-1\"\n         2) 1) \"level\"\n            2) \"7\"\n\
        > XACK river readers 1-1\n(integer) 1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (key, name) = (args.key(0), args.at(2));
    let stream = cx.view.collection::<Stream>(key)?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        reply.integer(0);
        return Ok(());
    }
    for index in 3..args.len() {
        strict_id(args, index)?;
    }
    let acknowledged = cx.view.shrink_stream(key, |stream, effects| {
        let acknowledged = stream.change_group(name, |_, group| {
            let ids = args.from(3).filter_map(|text| StreamId::parse(text, 0));
            ids.filter(|id| group.acknowledge(*id)).count()
        });
        let acknowledged = acknowledged.expect("the group was found");
        if acknowledged > 0 {
            effects.add(("XACK", ""), || args.from(2).map(|word| word.to_vec().into()).collect());
        }
        acknowledged
    })?;
    reply.integer(acknowledged.unwrap_or(0) as i64);
    Ok(())
}
