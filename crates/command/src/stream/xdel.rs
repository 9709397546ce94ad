//! XDEL: remove entries of a stream.

use collections::{Stream, StreamId};

use super::{IDS, strict_id};
use crate::prelude::*;

pub(super) static XDEL: Command = Command {
    name: "xdel",
    summary: "Removes entries of a stream; returns how many were there.",
    since: "5.0.0",
    complexity: "O(N log(M)), N being the number of identities and M that of entries",
    group: Group::Stream,
    arity: Arity::at_least(3),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), Arg::string("id").among(IDS).multiple()],
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XDEL river 1-1 1-2\n(integer) 1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    if cx.view.collection::<Stream>(key)?.is_none() {
        reply.integer(0);
        return Ok(());
    }
    for index in 2..args.len() {
        strict_id(args, index)?;
    }
    let removed = cx.view.shrink_stream(key, |stream, effects| {
        let log = stream.log_mut();
        let is_removed = |text: &[u8]| StreamId::parse(text, 0).is_some_and(|id| log.remove(id));
        let removed = args.from(2).map(is_removed).filter(|is_removed| *is_removed).count();
        if removed > 0 {
            effects.touch();
            effects.add(("XDEL", ""), || args.from(2).map(|id| id.to_vec().into()).collect());
        }
        removed
    })?;
    reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}
