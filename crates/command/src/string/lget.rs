//! LGET and MLGET: the strings at keys, and for keys without one the right to fill them.

use std::time::Duration;

use base::Key;
use keyspace::{LeaseAnswer, is_expired, lease_bytes};

use super::reply::reply_part;
use crate::prelude::*;

/// How long a lease lasts where the request does not say it, in milliseconds.
const LEASE_MS: u64 = 3_000;
/// The longest time that a request may ask for, in milliseconds.
pub(super) const MS_MAX: i64 = 3_600_000;
/// What a reply takes beside the value, at most, in bytes.
const REPLY_BYTES_BESIDE: usize = 128;

const TOO_MANY: CommandError = CommandError::Fixed("ERR too many leases are held");

pub(super) static LGET: Command = Command {
    name: "lget",
    summary: "Returns the string at a key, or lets one client at a time fill the key.",
    since: "7.2.4",
    group: Group::String,
    arity: Arity::at_least(2),
    flags: Flags::FAST.with(Flags::BLOCKING).with(Flags::LEASES),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::integer("milliseconds").token("TTL").within(1, 10_000).optional(),
        Arg::integer("milliseconds").token("WAIT").only_within(1, 2).optional(),
        Arg::integer("milliseconds").token("REFRESH").within(1, 10_000).optional(),
        Arg::word("stale", "STALE").optional(),
    ],
    note: "A command of Forebay, which Redis does not have. The reply has four parts: the state, \
        the value, the token, and milliseconds. `HIT`: the value, and its time to live or -1. \
        `WIN`: no value; the client is to load it and store it by LFILL with the token, within \
        the time of the lease, which is the last part: TTL, or 3 seconds. `STALE-WIN`: the same \
        with a value: with STALE one that has expired, with REFRESH one that is about to expire \
        within so many milliseconds. `STALE`: with STALE, a value that has expired, which another \
        client loads, and the time left of its lease. `BUSY`: no value, another client loads it; \
        with WAIT the reply comes once the value is there or the right passes on, those who wait \
        first getting it first, or after so many milliseconds, with 0 for the time. The \
        connection that wins holds the lease: it ends with it. Inside MULTI nothing waits.",
    example: "> SET lake deep\nOK\n> LGET lake\n1) HIT\n2) \"deep\"\n3) (nil)\n4) (integer) -1",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

pub(super) static MLGET: Command = Command {
    name: "mlget",
    summary: "Returns the strings at keys, or lets one client at a time fill each of them.",
    since: "7.2.4",
    complexity: "O(N), N being the number of keys",
    group: Group::String,
    arity: Arity::at_least(2),
    flags: Flags::FAST.with(Flags::LEASES),
    keys: &[KeySpec::all_from(1, KeyFlags::RW.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key").multiple()],
    note: "A command of Forebay, which Redis does not have. The reply has for each key what LGET \
        without options replies; a key that holds no string has the state `BUSY` and the time -1, \
        and one for which there can be no lease the time 0.",
    example: "> SET lake deep\nOK\n> MLGET lake\n1) 1) HIT\n   2) \"deep\"\n   3) (nil)\n   4) \
        (integer) -1",
    handler: Handler::Write(run_several),
    ..Command::DEFAULT
};

/// What a request asks for.
#[derive(Clone, Copy)]
struct LeaseOptions {
    lease_ms: u64,
    wait_ms: u64,
    refresh_ms: u64,
    stale: bool,
}

impl LeaseOptions {
    const DEFAULT: LeaseOptions =
        LeaseOptions { lease_ms: LEASE_MS, wait_ms: 0, refresh_ms: 0, stale: false };

    fn of(args: Args<'_>) -> Result<LeaseOptions, CommandError> {
        let mut options = LeaseOptions::DEFAULT;
        let mut index = 2;
        while index < args.len() {
            if args.is(index, "STALE") {
                options.stale = true;
                index += 1;
                continue;
            }
            let (target, min) = if args.is(index, "TTL") {
                (&mut options.lease_ms, 1)
            } else if args.is(index, "WAIT") {
                (&mut options.wait_ms, 0)
            } else if args.is(index, "REFRESH") {
                (&mut options.refresh_ms, 0)
            } else {
                return Err(CommandError::Syntax);
            };
            if index + 1 == args.len() {
                return Err(CommandError::Syntax);
            }
            *target = args.integer_in(index + 1, min, MS_MAX)? as u64;
            index += 2;
        }
        Ok(options)
    }
}

/// What there is to say of a key.
enum State {
    Hit {
        ms_left: i64,
    },
    Win {
        token: i64,
        has_value: bool,
    },
    Stale {
        ms_left: u64,
    },
    Busy {
        ms_left: u64,
    },
    /// As many leases are held as there may be.
    Full,
}

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let options = LeaseOptions::of(args)?;
    let key = args.key(0);
    match state_of(cx, key, options, false)? {
        State::Busy { .. } if options.wait_ms > 0 => {
            let timeout = Duration::from_millis(options.wait_ms);
            Err(Wait::new(timeout, |reply| reply_busy(0, reply), 1).or_lease().into())
        }
        State::Full => Err(TOO_MANY.into()),
        state => {
            reply_state(cx, key, &state, options.lease_ms, reply);
            Ok(())
        }
    }
}

fn run_several(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let options = LeaseOptions::DEFAULT;
    // At once: who is run again finds the leases that he has got as those of somebody.
    let overshoot = cx.memory_policy.overshoot_bytes_max();
    let now = cx.now();
    let view = cx.view.as_read();
    let is_missed =
        |key: &&Key<'_>| view.inspect(key).is_none_or(|object| is_expired(&object, now));
    let bytes = args.keys().iter().filter(is_missed).map(lease_bytes).sum();
    cx.view.admit_leases(args.key(0), bytes, overshoot)?;
    reply.array(args.keys().len());
    for key in args.keys() {
        match state_of(cx, key, options, true) {
            Ok(state) => reply_state(cx, key, &state, options.lease_ms, reply),
            Err(Unfinished::Refused(CommandError::WrongType)) => reply_busy(-1, reply),
            Err(unfinished) => return Err(unfinished),
        }
    }
    Ok(())
}

/// Finds out what there is to say of `key`, and gives the session the lease where it may have it;
/// asks for its memory unless that `is_admitted`.
fn state_of(
    cx: &mut WriteContext<'_>,
    key: &Key<'_>,
    options: LeaseOptions,
    is_admitted: bool,
) -> Result<State, Unfinished> {
    let now = cx.now();
    let view = cx.view.as_read();
    let live = view.string_and_expiry(key)?;
    let hit = live.map(|live| live.expiry.map_or(-1, |at| at.0.saturating_sub(now.0)));
    if let Some(ms_left) = hit
        && !(0..options.refresh_ms as i64).contains(&ms_left)
    {
        return Ok(State::Hit { ms_left });
    }
    let stale = || view.stale_string(key).filter(|_| options.stale).map(|(value, _)| value.len());
    let value_bytes = live.map(|live| live.value.len()).or_else(stale);
    let state = |ms_left| match (hit, value_bytes) {
        (Some(ms_left), _) => State::Hit { ms_left },
        (None, Some(_)) => State::Stale { ms_left },
        (None, None) => State::Busy { ms_left },
    };
    if let Some(ms_left) = cx.view.lease_ms_left(key) {
        return Ok(state(ms_left));
    }
    // What cannot be replied to the session gives it no lease that it does not learn of.
    if value_bytes.unwrap_or(0) + REPLY_BYTES_BESIDE > cx.reply_bytes_max {
        return Err(Need::OwnWorker.into());
    }
    if !is_admitted {
        let overshoot = cx.memory_policy.overshoot_bytes_max();
        cx.view.admit_leases(key, lease_bytes(key), overshoot)?;
    }
    match cx.view.lease(key, cx.session, options.lease_ms) {
        LeaseAnswer::Won(token) => {
            Ok(State::Win { token: token.number(), has_value: value_bytes.is_some() })
        }
        LeaseAnswer::Taken { ms_left } => Ok(state(ms_left)),
        LeaseAnswer::TooMany => Ok(State::Full),
    }
}

fn reply_state(
    cx: &WriteContext<'_>,
    key: &Key<'_>,
    state: &State,
    lease_ms: u64,
    reply: &mut Reply<'_>,
) {
    let (name, has_value, token, ms) = match *state {
        State::Hit { ms_left } => ("HIT", true, None, ms_left),
        State::Win { token, has_value: false } => ("WIN", false, Some(token), lease_ms as i64),
        State::Win { token, has_value: true } => ("STALE-WIN", true, Some(token), lease_ms as i64),
        State::Stale { ms_left } => ("STALE", true, None, ms_left as i64),
        State::Busy { ms_left } => return reply_busy(ms_left as i64, reply),
        State::Full => return reply_busy(0, reply),
    };
    reply.array(4);
    reply.simple(name);
    let view = cx.view.as_read();
    match view.string_or_stale(key).filter(|_| has_value) {
        Some(value) => reply_part(view, key, value, 0..value.len(), reply),
        None => reply.null(),
    }
    match token {
        Some(token) => reply.integer(token),
        None => reply.null(),
    }
    reply.integer(ms);
}

fn reply_busy(ms: i64, reply: &mut Reply<'_>) {
    reply.array(4);
    reply.simple("BUSY");
    reply.null();
    reply.null();
    reply.integer(ms);
}
