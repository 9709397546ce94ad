//! XCFGSET: set for how long a stream remembers what its producers sent. And XIDMPRECORD, by which
//! a replica remembers it too.

use collections::{Producers, Stream, StreamId};
use keyspace::{NO_EVENT, WhenAbsent};

use super::{IDS, strict_id};
use crate::prelude::*;

/// A producer, and a message of it.
pub(super) const PRODUCER: Arg = Arg::string("pid").among(&["p", "q"]);
pub(super) const MESSAGE: Arg = Arg::string("iid").among(&["one", "two", "three"]);

/// Seconds for which a message may be remembered.
const DURATIONS_S: std::ops::RangeInclusive<i64> = 1..=86_400;
/// Messages of a producer that may be remembered.
const SIZES: std::ops::RangeInclusive<i64> = 1..=10_000;
const NOTHING: CommandError = CommandError::Fixed("ERR At least one parameter must be specified");
const NO_DURATION: CommandError =
    CommandError::Fixed("ERR IDMP-DURATION must be between 1 and 86400 seconds");
const NO_SIZE: CommandError =
    CommandError::Fixed("ERR IDMP-MAXSIZE must be between 1 and 10000 entries");

pub(super) static XCFGSET: Command = Command {
    name: "xcfgset",
    summary: "Sets for how long, and how much, a stream remembers of what producers sent.",
    since: "8.6.0",
    group: Group::Stream,
    arity: Arity::at_least(2),
    flags: Flags::FAST.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::integer("idmp-duration").token("IDMP-DURATION").optional().within(1, 300),
        Arg::integer("idmp-maxsize").token("IDMP-MAXSIZE").optional().within(1, 20),
    ],
    note: "A command of Redis 8.6. A stream remembers the messages of XADD with `IDMP` or \
        `IDMPAUTO` for 100 seconds, and 100 of each producer, unless this says otherwise. Another \
        duration or number than before has it forget them all. DUMP does not write what is \
        remembered, nor these settings, as the format has no place for them.",
    example: "> XADD river 1-1 level 7\n\"1-1\"\n\
        > XCFGSET river IDMP-DURATION 300 IDMP-MAXSIZE 1000\nOK",
    handler: Handler::Write(configure),
    ..Command::DEFAULT
};

fn configure(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let (mut duration_s, mut size_max, mut index) = (None, None, 2);
    let within = |number: i64, range: &std::ops::RangeInclusive<i64>| {
        range.contains(&number).then_some(number as u32)
    };
    while index < args.len() {
        let has_more = index + 1 < args.len();
        if args.is(index, "IDMP-DURATION") && has_more {
            let number = args.integer(index + 1)?;
            duration_s = Some(within(number, &DURATIONS_S).ok_or(NO_DURATION)?);
        } else if args.is(index, "IDMP-MAXSIZE") && has_more {
            size_max = Some(within(args.integer(index + 1)?, &SIZES).ok_or(NO_SIZE)?);
        } else {
            return Err(CommandError::Syntax.into());
        }
        index += 2;
    }
    if duration_s.is_none() && size_max.is_none() {
        return Err(NOTHING.into());
    }
    let growth = Stream::producers_growth_bound;
    let set =
        cx.view.change_stream(args.key(0), WhenAbsent::Skip, growth, |stream, _, effects| {
            stream.producers_mut().configure(duration_s, size_max);
            effects.touch();
            effects.add(("XCFGSET", NO_EVENT), || {
                args.from(2).map(|word| word.to_vec().into()).collect()
            });
        })?;
    set.ok_or(CommandError::NO_SUCH_KEY)?;
    reply.ok();
    Ok(())
}

pub(super) static XIDMPRECORD: Command = Command {
    name: "xidmprecord",
    summary: "Has a stream remember which entry a message of a producer became.",
    since: "8.8.0",
    group: Group::Stream,
    arity: Arity::exactly(5),
    flags: Flags::DENYOOM.with(Flags::FAST).with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), PRODUCER, MESSAGE, Arg::string("stream-id").among(IDS)],
    note: "A command of Redis 8.8 for those who copy streams.",
    example: "> XADD river 1-1 level 7\n\"1-1\"\n> XIDMPRECORD river gauge m-1 1-1\nOK\n\
        > XADD river IDMP gauge m-1 * level 7\n\"1-1\"",
    handler: Handler::Write(record),
    ..Command::DEFAULT
};

fn record(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let (producer, message, entry) = (args.at(2), args.at(3), strict_id(args, 4)?);
    let now = cx.view.stamp();
    let growth = || growth(producer, message);
    let known =
        cx.view.change_stream(args.key(0), WhenAbsent::Skip, growth, |stream, _, effects| {
            stream.producers_mut().add(producer, message, entry, now);
            tell_message(effects, producer, message, entry);
        })?;
    known.ok_or(CommandError::NO_SUCH_KEY)?;
    reply.ok();
    Ok(())
}

/// Returns a bound of what it takes that a stream remembers a message.
pub(super) fn growth(producer: &[u8], message: &[u8]) -> u64 {
    Stream::producers_growth_bound() + Producers::growth_bound(producer, message)
}

/// Adds the effect that `message` of `producer` became `entry`.
pub(super) fn tell_message<'e>(
    effects: &mut keyspace::StreamEffects<'e>,
    producer: &[u8],
    message: &[u8],
    entry: StreamId,
) {
    effects.add(("XIDMPRECORD", NO_EVENT), || {
        let words = [producer, message].map(|word| word.to_vec().into());
        words.into_iter().chain([super::id_text(entry)]).collect()
    });
}
