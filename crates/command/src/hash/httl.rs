//! HTTL, HPTTL, HEXPIRETIME and HPEXPIRETIME: when fields expire.

use collections::Hash;

use super::field_times::{ENDLESS, FIELDS, NO_FIELD, NOT_A_COUNT, first_field};
use crate::prelude::*;

pub(super) static HTTL: Command = Command {
    name: "httl",
    summary: "Returns the seconds until fields of a hash expire.",
    since: "7.4.0",
    complexity: "O(N), N being the fields that are named",
    group: Group::Hash,
    arity: Arity::at_least(5),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    returns_times: true,
    args: &[Arg::key("key"), FIELDS],
    tips: &["nondeterministic_output"],
    note: "A command of Redis 7.4.",
    example: "> HSETEX lake EX 60 FIELDS 1 depth 12\n(integer) 1\n\
        > HTTL lake FIELDS 2 depth colour\n1) (integer) 60\n2) (integer) -2",
    handler: Handler::Read(|cx, args, reply| {
        reply_times(cx, args, reply, |at, now| whole_seconds(at - now))
    }),
    ..Command::DEFAULT
};

pub(super) static HPTTL: Command = Command {
    name: "hpttl",
    summary: "Returns the milliseconds until fields of a hash expire.",
    example: "> HSET lake depth 12\n(integer) 1\n> HPTTL lake FIELDS 1 depth\n1) (integer) -1",
    handler: Handler::Read(|cx, args, reply| reply_times(cx, args, reply, |at, now| at - now)),
    ..HTTL
};

pub(super) static HEXPIRETIME: Command = Command {
    name: "hexpiretime",
    summary: "Returns the second since the Unix epoch at which fields of a hash expire.",
    tips: &[],
    example: "> HSETEX lake EXAT 33177117420 FIELDS 1 depth 12\n(integer) 1\n\
        > HEXPIRETIME lake FIELDS 1 depth\n1) (integer) 33177117420",
    handler: Handler::Read(|cx, args, reply| {
        reply_times(cx, args, reply, |at, _| whole_seconds(at))
    }),
    ..HTTL
};

pub(super) static HPEXPIRETIME: Command = Command {
    name: "hpexpiretime",
    summary: "Returns the millisecond since the Unix epoch at which fields of a hash expire.",
    example: "> HSETEX lake PXAT 33177117420000 FIELDS 1 depth 12\n(integer) 1\n\
        > HPEXPIRETIME lake FIELDS 1 depth\n1) (integer) 33177117420000",
    handler: Handler::Read(|cx, args, reply| reply_times(cx, args, reply, |at, _| at)),
    ..HEXPIRETIME
};

/// Replies with what `shown` makes of the time of each field and of now, in milliseconds.
///
/// Source: Redis 7.4, `httlGenericCommand`.
fn reply_times(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    shown: impl Fn(i64, i64) -> i64,
) -> Result<(), Unfinished> {
    let key = args.key(0);
    let hash = cx.view.collection::<Hash>(key)?;
    let fields = args.from(first_field(args, 2, NOT_A_COUNT)?);
    reply.array(fields.len());
    for field in fields {
        let found = hash.filter(|hash| hash.get(field, cx.view.rules(key)).is_some());
        reply.integer(match found.map(|hash| hash.time_of(field)) {
            None => NO_FIELD,
            Some(None) => ENDLESS,
            Some(Some(at)) => shown(at.0, cx.now().0),
        });
    }
    Ok(())
}

/// Returns the seconds that `milliseconds` are, rounded up, as here Redis does.
fn whole_seconds(milliseconds: i64) -> i64 {
    (milliseconds + 999) / 1000
}
