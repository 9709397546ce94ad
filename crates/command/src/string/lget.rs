//! LGET and MLGET: the strings at keys, and for keys without one the right to fill them.

use std::time::Duration;

use base::Key;
use keyspace::{LeaseAnswer, PrivateCopies};

use super::reply::reply_part;
use crate::prelude::*;

/// How long a lease lasts where the request does not say it, in milliseconds.
const LEASE_MS: u64 = 3_000;
/// The longest time that a request may ask for, in milliseconds.
pub(super) const MS_MAX: i64 = 3_600_000;
/// What a reply takes beside the value, at most, in bytes.
const REPLY_BYTES_BESIDE: u64 = 128;

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
        client loads, and the time left of its lease. Where there can be no lease, for want of \
        memory or as too many are held, a value is a `HIT`, or `STALE` with the time 0, and \
        without a value the request is refused. `BUSY`: no value, another client loads it; \
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
    /// There is no value, and there can be no lease.
    Refused(Unfinished),
}

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let options = LeaseOptions::of(args)?;
    let key = args.key(0);
    let copies = cx.own_or_copy(args.keys())?;
    match state_of(cx, &copies, key, options)? {
        State::Busy { .. } if options.wait_ms > 0 => {
            let timeout = Duration::from_millis(options.wait_ms);
            Err(Wait::new(timeout, |reply| reply_busy(0, reply), 1).or_lease().into())
        }
        State::Refused(why) => Err(why),
        state => {
            reply_state(cx, &copies, key, &state, options.lease_ms, reply);
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
    let copies = cx.own_or_copy(args.keys())?;
    if cx.prepares {
        // At once: who is run again finds the leases that he has got as those of somebody.
        let overshoot = cx.memory_policy.overshoot_bytes_max();
        let admitted = cx.view.admit_leases(args.keys(), cx.session, overshoot);
        admitted.map_err(|need| Unfinished::AgainAnyway(Need::Room(need)))?;
    }
    reply.array(args.keys().len());
    for key in args.keys() {
        match state_of(cx, &copies, key, options) {
            Ok(state) => reply_state(cx, &copies, key, &state, options.lease_ms, reply),
            Err(Unfinished::Refused(CommandError::WrongType)) => reply_busy(-1, reply),
            Err(unfinished) => return Err(unfinished),
        }
    }
    Ok(())
}

/// Finds out what there is to say of `key`, and gives the session the lease where it may have it. A
/// value is returned whether there can be a lease or not.
fn state_of(
    cx: &mut WriteContext<'_>,
    copies: &PrivateCopies,
    key: &Key<'_>,
    options: LeaseOptions,
) -> Result<State, Unfinished> {
    let now = cx.now();
    let view = cx.view.as_read().with_copies(copies);
    let live = view.string_and_expiry(key)?.filter(|live| !live.is_in_the_making);
    let hit = live.map(|live| live.expiry.map_or(-1, |at| at.0.saturating_sub(now.0)));
    if let Some(ms_left) = hit
        && !(0..options.refresh_ms as i64).contains(&ms_left)
    {
        return Ok(State::Hit { ms_left });
    }
    let value_bytes = match live {
        Some(live) => Some(live.value.len() as u64),
        None if options.stale => view.stale_string_length(key),
        None => None,
    };
    // What cannot be replied to the session gives it no lease that it does not learn of.
    let reply_bytes = value_bytes.unwrap_or(0).saturating_add(REPLY_BYTES_BESIDE);
    if reply_bytes > cx.reply_bytes_max as u64 && cx.view.lease_ms_left(key).is_none() {
        return Err(Need::OwnWorker.into());
    }
    let has_value = value_bytes.is_some();
    let overshoot = cx.memory_policy.overshoot_bytes_max();
    let ms_left = match cx.view.lease(key, cx.session, options.lease_ms, overshoot) {
        LeaseAnswer::Won(token) => return Ok(State::Win { token: token.number(), has_value }),
        LeaseAnswer::Taken { ms_left } => ms_left,
        LeaseAnswer::NoRoom(need) if has_value && cx.prepares => {
            return Err(Unfinished::AgainAnyway(Need::Room(need)));
        }
        LeaseAnswer::NoRoom(_) | LeaseAnswer::TooMany if has_value => 0,
        LeaseAnswer::NoRoom(need) => return Ok(State::Refused(need.into())),
        LeaseAnswer::TooMany => return Ok(State::Refused(TOO_MANY.into())),
    };
    Ok(match hit {
        Some(ms_left) => State::Hit { ms_left },
        None if has_value => State::Stale { ms_left },
        None => State::Busy { ms_left },
    })
}

fn reply_state(
    cx: &WriteContext<'_>,
    copies: &PrivateCopies,
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
        State::Refused(_) => return reply_busy(0, reply),
    };
    reply.array(4);
    reply.simple(name);
    let view = cx.view.as_read().with_copies(copies);
    match has_value.then(|| view.string_or_stale(key)).flatten() {
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
