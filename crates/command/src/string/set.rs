//! SET: makes a key hold a string.

use base::Key;
use keyspace::{Cost, Expiry};
use resp::RequestView;

use super::comparison::{Comparison, IFDEQ, IFDNE, IFEQ, IFNE};
use super::reply::reply_string;
use super::set_options::{Condition, SetOptions};
use crate::parse::time_to_live::{EX, EXAT, PX, PXAT};
use crate::prelude::*;

/// Where the options begin.
const OPTIONS_AT: usize = 3;

/// When the value is stored.
pub(crate) const CONDITION: Arg = Arg::one_of(
    "condition",
    &[
        Arg::word("nx", "NX"),
        Arg::word("xx", "XX"),
        IFEQ.since("8.1.0"),
        IFNE.since("8.4.0"),
        IFDEQ.since("8.4.0"),
        IFDNE.since("8.4.0"),
    ],
)
.optional()
.since("2.6.12");

/// Asks for the old value.
pub(crate) const GET: Arg = Arg::word("get", "GET").optional().since("6.2.0");

/// The time to live.
pub(crate) const EXPIRATION: Arg = Arg::one_of(
    "expiration",
    &[
        EX.since("2.6.12"),
        PX.since("2.6.12"),
        EXAT.since("6.2.0"),
        PXAT.since("6.2.0"),
        Arg::word("keepttl", "KEEPTTL").since("6.0.0"),
    ],
)
.optional();

/// How dear the value is.
const COST: Arg = Arg::integer("cost").token("COST").within(1, Cost::MAX as i64).optional();

pub(super) static SET: Command = Command {
    name: "set",
    summary: "Makes a key hold a string, whatever it held, and drops its time to live.",
    since: "1.0.0",
    group: Group::String,
    arity: Arity::at_least(3),
    flags: Flags::DENYOOM.with(Flags::EFFECT),
    keys: &[KeySpec::at(
        1,
        KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE).with(KeyFlags::VARIABLE_FLAGS),
    )
    .note("RW and ACCESS due to the optional `GET` argument")],
    key_flags: Some(key_flags),
    value_at: Some(2),
    args: &[Arg::key("key"), Arg::string("value"), CONDITION, GET, EXPIRATION, COST],
    history: &[
        ("2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."),
        ("6.0.0", "Added the `KEEPTTL` option."),
        ("6.2.0", "Added the `GET`, `EXAT` and `PXAT` option."),
        ("7.0.0", "Allowed the `NX` and `GET` options to be used together."),
    ],
    note: "IFEQ is of Valkey 8.1 and Redis 8.4, IFNE, IFDEQ and IFDNE are of Redis 8.4; Redis 7.2 \
        has none of them. COST is of Forebay: how much dearer than others the value is to have \
        back, a number from 1 to 65535 of which the five highest bits are kept. Where \
        maxmemory-policy is adaptive, a key of cost 10 stays as long as one that is asked for ten \
        times as often; under other policies it has no effect. The cost stays with its value: \
        through commands that change the string (APPEND, INCR, SETBIT, SET and SHM COMMIT with \
        KEEPTTL), times to live, RENAME, COPY and MOVE. A plain SET, INCREX with a time, RESTORE, \
        and items that memcached's clients store, drop it. SHM COMMIT has no COST.",
    example: "> SET lake deep\nOK\n> SET lake wide GET EX 60\n\"deep\"\n> SET lake dry NX\n(nil)",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let value = args.at(2);
    run_with(&SET, OPTIONS_AT, SetOptions::of_set, cx, args, reply, |cx, key, expiry| {
        Ok(cx.view.set(key, value, expiry)?)
    })
}

/// Runs `command`, which is SET but for the value, an upload that `store` stores, and whose options
/// begin at argument `first`.
pub(crate) fn run_upload(
    command: &'static Command,
    first: usize,
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    store: impl FnOnce(&mut WriteContext<'_>, &Key<'_>, Expiry) -> Result<(), Unfinished>,
) -> Result<(), Unfinished> {
    run_with(command, first, SetOptions::of_upload, cx, args, reply, store)
}

/// Runs `command`, whose options begin at argument `first` and are read by `parse`, and which
/// stores by `store`.
#[inline]
fn run_with<'a>(
    command: &'static Command,
    first: usize,
    parse: impl FnOnce(Args<'a>, usize) -> Result<SetOptions<'a>, CommandError>,
    cx: &mut WriteContext<'_>,
    args: Args<'a>,
    reply: &mut Reply<'_>,
    store: impl FnOnce(&mut WriteContext<'_>, &Key<'_>, Expiry) -> Result<(), Unfinished>,
) -> Result<(), Unfinished> {
    let key = args.key(0);
    if args.len() == first {
        store(cx, key, Expiry::Clear)?;
        reply.ok();
        return Ok(());
    }
    let options = parse(args, first)?;
    let expiry = options.time.expiry(cx.now(), command)?;
    if options.get {
        reply_string(cx.view.as_read(), key, reply)?;
    }
    let is_wanted = match options.condition {
        None => true,
        Some(Condition::Absent) => !cx.view.contains(key),
        Some(Condition::Present) => cx.view.contains(key),
        Some(Condition::Compared(comparison)) => {
            cx.own(args.keys())?;
            match cx.view.string(key)? {
                Some(value) => comparison.holds(value)?,
                None => comparison.holds_without_value(),
            }
        }
    };
    if is_wanted {
        match options.cost {
            None => store(cx, key, expiry)?,
            // Only SET takes one, whose value is an argument.
            Some(cost) => cx.view.set_costed(key, args.at(2), expiry, cost)?,
        }
    }
    match (options.get, is_wanted) {
        (true, _) => {}
        (false, true) => reply.ok(),
        (false, false) => reply.null(),
    }
    Ok(())
}

/// Only GET and comparisons read the key.
fn key_flags(request: RequestView<'_>) -> KeyFlags {
    key_flags_from(OPTIONS_AT, request)
}

/// As SET's, for options from argument `first` on.
pub(crate) fn key_flags_from(first: usize, request: RequestView<'_>) -> KeyFlags {
    let mut options = request.iter().skip(first);
    let reads =
        options.any(|option| option.eq_ignore_ascii_case(b"GET") || Comparison::is_option(option));
    match reads {
        true => KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE),
        false => KeyFlags::OW.with(KeyFlags::UPDATE),
    }
}
