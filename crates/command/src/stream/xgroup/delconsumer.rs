//! XGROUP DELCONSUMER: remove a consumer.

use super::{KEY, NAME, existing_group};
use crate::prelude::*;
use crate::stream::{CONSUMER, GROUP};

pub(super) static DELCONSUMER: Command = Command {
    name: "xgroup|delconsumer",
    summary: "Removes a consumer of a group; returns how many entries were pending with it.",
    since: "5.0.0",
    complexity: "O(N log(N)), N being the number of entries that were pending with it",
    group: Group::Stream,
    arity: Arity::exactly(5),
    flags: Flags::EFFECT,
    keys: &[KeySpec::at(KEY, KeyFlags::RW.with(KeyFlags::DELETE))],
    args: &[Arg::key("key"), GROUP, CONSUMER],
    example: "> XGROUP CREATE river readers $ MKSTREAM\nOK\n\
        > XGROUP DELCONSUMER river readers ada\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    existing_group(cx, args)?;
    let (name, consumer) = (args.at(NAME), args.at(4));
    let pending = cx.view.shrink_stream(args.key(0), |stream, effects| {
        stream.change_group(name, |_, group| {
            let Some(index) = group.find_consumer(consumer) else { return 0 };
            effects.add(("XGROUP|DELCONSUMER", ""), || {
                vec![name.to_vec().into(), consumer.to_vec().into()]
            });
            group.remove_consumer(index)
        })
    })?;
    reply.integer(pending.flatten().unwrap_or(0) as i64);
    Ok(())
}
