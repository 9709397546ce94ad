//! TTL, PTTL, EXPIRETIME and PEXPIRETIME: when a key expires.

use crate::prelude::*;

pub(super) static TTL: Command = Command {
    name: "ttl",
    summary: "Returns the seconds until a key expires.",
    since: "1.0.0",
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    returns_times: true,
    args: &[Arg::key("key")],
    history: &[("2.8.0", "Added the -2 reply.")],
    tips: &["nondeterministic_output"],
    example: "> SET lake deep EX 60\nOK\n> TTL lake\n(integer) 60\n> TTL river\n(integer) -2",
    handler: Handler::Read(|cx, args, reply| {
        reply_time(cx, args, reply, |at, now| nearest_second(at.saturating_sub(now)))
    }),
    ..Command::DEFAULT
};

pub(super) static PTTL: Command = Command {
    name: "pttl",
    summary: "Returns the milliseconds until a key expires.",
    since: "2.6.0",
    example: "> SET lake deep\nOK\n> PTTL lake\n(integer) -1",
    handler: Handler::Read(|cx, args, reply| {
        reply_time(cx, args, reply, |at, now| at.saturating_sub(now))
    }),
    ..TTL
};

pub(super) static EXPIRETIME: Command = Command {
    name: "expiretime",
    summary: "Returns the second since the Unix epoch at which a key expires.",
    since: "7.0.0",
    history: &[],
    tips: &[],
    example: "> SET lake deep EXAT 33177117420\nOK\n> EXPIRETIME lake\n(integer) 33177117420",
    handler: Handler::Read(|cx, args, reply| {
        reply_time(cx, args, reply, |at, _| nearest_second(at))
    }),
    ..TTL
};

pub(super) static PEXPIRETIME: Command = Command {
    name: "pexpiretime",
    summary: "Returns the millisecond since the Unix epoch at which a key expires.",
    example: "> SET lake deep PXAT 33177117420000\nOK\n\
        > PEXPIRETIME lake\n(integer) 33177117420000",
    handler: Handler::Read(|cx, args, reply| reply_time(cx, args, reply, |at, _| at)),
    ..EXPIRETIME
};

/// The reply where the key does not exist.
const ABSENT: i64 = -2;
/// The reply where the key does not expire.
const ENDLESS: i64 = -1;

/// Replies with the time of the request's key, which `told` makes of it and of now, both in
/// milliseconds; a negative one is told as 0.
fn reply_time(
    cx: &ReadContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    told: impl FnOnce(i64, i64) -> i64,
) -> Result<(), Unfinished> {
    let time = match cx.view.peek(args.key(0)).map(|entry| entry.expiry()) {
        None => ABSENT,
        Some(None) => ENDLESS,
        Some(Some(at)) => told(at.0, cx.now().0).max(0),
    };
    reply.integer(time);
    Ok(())
}

/// Returns the nearest number of seconds, as Redis does.
fn nearest_second(milliseconds: i64) -> i64 {
    milliseconds.saturating_add(500) / 1000
}
