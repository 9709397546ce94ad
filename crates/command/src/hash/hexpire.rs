//! HEXPIRE, HEXPIREAT, HPEXPIRE and HPEXPIREAT: times to live for fields.

use collections::Hash;
use keyspace::{TimeCondition, TimeOutcome};

use super::field_times::{FIELDS, NO_FIELD, field_time, first_field};
use crate::parse::time_to_live::TimeForm;
use crate::prelude::*;

const NOT_A_COUNT: CommandError =
    CommandError::Fixed("ERR Parameter `numFields` should be greater than 0");

const CONDITION: Arg = Arg::one_of(
    "condition",
    &[Arg::word("nx", "NX"), Arg::word("xx", "XX"), Arg::word("gt", "GT"), Arg::word("lt", "LT")],
)
.optional();

pub(super) static HEXPIRE: Command = Command {
    name: "hexpire",
    summary: "Makes fields of a hash expire after some seconds.",
    since: "7.4.0",
    complexity: "O(N), N being the fields that are named",
    group: Group::Hash,
    arity: Arity::at_least(6),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::integer("seconds").within(0, 1_000_000), CONDITION, FIELDS],
    note: "A command of Redis 7.4. A field that has expired is absent also while it is not yet \
        removed; Redis 8 takes it as there.",
    example: "> HSET lake depth 12\n(integer) 1\n\
        > HEXPIRE lake 60 FIELDS 2 depth colour\n1) (integer) 1\n2) (integer) -2\n\
        > HTTL lake FIELDS 1 depth\n1) (integer) 60",
    handler: Handler::Write(|cx, args, reply| expire(cx, args, reply, TimeForm::Seconds, &HEXPIRE)),
    ..Command::DEFAULT
};

pub(super) static HEXPIREAT: Command = Command {
    name: "hexpireat",
    summary: "Makes fields of a hash expire at a second since the Unix epoch.",
    args: &[
        Arg::key("key"),
        Arg::unix_time("unix-time-seconds").within(0, 10_000_000_000),
        CONDITION,
        FIELDS,
    ],
    example: "> HSET lake depth 12\n(integer) 1\n\
        > HEXPIREAT lake 33177117420 FIELDS 1 depth\n1) (integer) 1\n\
        > HEXPIRETIME lake FIELDS 1 depth\n1) (integer) 33177117420",
    handler: Handler::Write(|cx, args, reply| {
        expire(cx, args, reply, TimeForm::UnixSeconds, &HEXPIREAT)
    }),
    ..HEXPIRE
};

pub(super) static HPEXPIRE: Command = Command {
    name: "hpexpire",
    summary: "Makes fields of a hash expire after some milliseconds.",
    args: &[
        Arg::key("key"),
        Arg::integer("milliseconds").within(0, 1_000_000_000),
        CONDITION,
        FIELDS,
    ],
    example: "> HSET lake depth 12\n(integer) 1\n\
        > HPEXPIRE lake 60000 FIELDS 1 depth\n1) (integer) 1\n\
        > HPEXPIRE lake 10000 GT FIELDS 1 depth\n1) (integer) 0",
    handler: Handler::Write(|cx, args, reply| {
        expire(cx, args, reply, TimeForm::Milliseconds, &HPEXPIRE)
    }),
    ..HEXPIRE
};

pub(super) static HPEXPIREAT: Command = Command {
    name: "hpexpireat",
    summary: "Makes fields of a hash expire at a millisecond since the Unix epoch.",
    flags: HEXPIRE.flags.with(Flags::EFFECT),
    args: &[
        Arg::key("key"),
        Arg::unix_time("unix-time-milliseconds").within(0, 10_000_000_000_000),
        CONDITION,
        FIELDS,
    ],
    example: "> HSET lake depth 12\n(integer) 1\n\
        > HPEXPIREAT lake 33177117420000 FIELDS 1 depth\n1) (integer) 1\n\
        > HPEXPIREAT lake 1 FIELDS 1 depth\n1) (integer) 2\n\
        > EXISTS lake\n(integer) 0",
    // Applied as an effect it finds that no time has come, as no clock is asked then.
    handler: Handler::Write(|cx, args, reply| {
        expire(cx, args, reply, TimeForm::UnixMilliseconds, &HPEXPIREAT)
    }),
    ..HEXPIRE
};

/// Gives the fields of the request the time that is written in `form`. A time that has come removes
/// them: the effect is that of HDEL.
///
/// Source: Redis 7.4, `hexpireGenericCommand`.
fn expire(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    form: TimeForm,
    command: &'static Command,
) -> Result<(), Unfinished> {
    let key = args.key(0);
    cx.view.collection::<Hash>(key)?;
    let at = field_time(args.at(2), form, cx.now(), command)?;
    let condition = if args.is(3, "NX") {
        TimeCondition::Absent
    } else if args.is(3, "XX") {
        TimeCondition::Present
    } else if args.is(3, "GT") {
        TimeCondition::Later
    } else if args.is(3, "LT") {
        TimeCondition::Earlier
    } else {
        TimeCondition::Always
    };
    let fields_at = if condition == TimeCondition::Always { 3 } else { 4 };
    let fields = args.from(first_field(args, fields_at, NOT_A_COUNT)?);
    let outcomes = cx.view.set_field_times(key, at, condition, fields.clone())?;
    reply.array(fields.len());
    match outcomes {
        None => fields.for_each(|_| reply.integer(NO_FIELD)),
        Some(outcomes) => outcomes.into_iter().for_each(|outcome| {
            reply.integer(match outcome {
                TimeOutcome::NoField => NO_FIELD,
                TimeOutcome::NotMet => 0,
                TimeOutcome::Set => 1,
                TimeOutcome::Removed => 2,
            });
        }),
    }
    Ok(())
}
