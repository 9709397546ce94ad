//! XGROUP CREATECONSUMER: make a consumer.

use keyspace::WhenAbsent;

use super::{KEY, NAME, existing_group};
use crate::prelude::*;
use crate::stream::claims::tell_new_consumer;
use crate::stream::{CONSUMER, GROUP};

pub(super) static CREATECONSUMER: Command = Command {
    name: "xgroup|createconsumer",
    summary: "Makes a consumer of a group; returns whether it was not there.",
    since: "6.2.0",
    group: Group::Stream,
    arity: Arity::exactly(5),
    flags: Flags::DENYOOM.with(Flags::EFFECT),
    keys: &[KeySpec::at(KEY, KeyFlags::RW.with(KeyFlags::INSERT))],
    args: &[Arg::key("key"), GROUP, CONSUMER],
    example: "> XGROUP CREATE river readers $ MKSTREAM\nOK\n\
        > XGROUP CREATECONSUMER river readers ada\n(integer) 1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let (name, consumer, now) = (args.at(NAME), args.at(4), cx.view.stamp());
    let group = existing_group(cx, args)?;
    let (is_new, growth) =
        (group.find_consumer(consumer).is_none(), group.consumer_growth(consumer));
    if is_new {
        let growth = || growth;
        cx.view.change_stream(args.key(0), WhenAbsent::Skip, growth, |stream, _, effects| {
            stream.change_group(name, |_, group| {
                group.add_consumer(consumer, now);
                tell_new_consumer(effects, name, consumer);
            })
        })?;
    }
    reply.integer(i64::from(is_new));
    Ok(())
}
