//! XGROUP CREATECONSUMER: make a consumer.

use collections::Group as ConsumerGroup;
use keyspace::WhenAbsent;

use super::{KEY, NAME, check_group};
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
    check_group(cx, args)?;
    let (name, consumer, now) = (args.at(NAME), args.at(4), cx.view.stamp());
    let growth = || ConsumerGroup::consumer_growth_bound(consumer);
    let made =
        cx.view.change_stream(args.key(0), WhenAbsent::Skip, growth, |stream, _, effects| {
            stream.change_group(name, |_, group| {
                let is_new = group.find_consumer(consumer).is_none();
                if is_new {
                    group.add_consumer(consumer, now);
                    tell_new_consumer(effects, name, consumer);
                }
                is_new
            })
        })?;
    reply.integer(i64::from(made.flatten() == Some(true)));
    Ok(())
}
