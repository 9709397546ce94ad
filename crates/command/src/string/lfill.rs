//! LFILL: the value that a client has loaded under a lease.

use keyspace::{Expiry, LeaseToken};

use super::lease::GRACE_MS_MAX;
use super::set_options::Time;
use crate::parse::time_to_live::{EX, EXAT, PX, PXAT};
use crate::prelude::*;

const NO_TIME: CommandError =
    CommandError::Fixed("ERR STALE asks for a time to live: EX, PX, EXAT or PXAT");

pub(super) static LFILL: Command = Command {
    name: "lfill",
    summary: "Makes a key hold a string, for the client that has the right to fill the key.",
    since: "7.2.4",
    group: Group::String,
    arity: Arity::at_least(4),
    flags: Flags::DENYOOM,
    keys: &[KeySpec::at(1, KeyFlags::OW.with(KeyFlags::UPDATE))],
    value_at: Some(2),
    args: &[
        Arg::key("key"),
        Arg::string("value"),
        Arg::integer("token"),
        Arg::one_of("expiration", &[EX, PX, EXAT, PXAT]).optional(),
        Arg::integer("milliseconds").token("STALE").within(1, 100_000).optional(),
    ],
    note: "A command of Forebay, which Redis does not have; the token is that of LGET. The reply \
        is 1 where the value is stored, and the lease has ended; 0 where the lease had ended \
        before: its time has passed, or the key was written or removed since, even if it was not \
        there. Then nothing is stored: what the client has loaded may be older than that. With \
        STALE the value is kept for so many milliseconds behind its time to live, for LGET with \
        STALE alone: to any other command the key is not there.",
    example: "> LFILL lake deep 7 EX 60\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let token = LeaseToken::of(args.integer(3)?);
    let (mut time, mut stale_ms, mut index) = (Time::Unsaid, 0, 4);
    while index < args.len() {
        if args.is(index, "STALE") && index + 1 < args.len() {
            stale_ms = args.integer_in(index + 1, 0, GRACE_MS_MAX)? as u64;
        } else {
            time = time.replaced(args, index)?;
        }
        index += 2;
    }
    let expiry = time.expiry(cx.now(), &LFILL)?;
    if stale_ms > 0 && expiry == Expiry::Clear {
        return Err(NO_TIME.into());
    }
    let is_filled = cx.view.fill(args.key(0), token, args.at(2), expiry, stale_ms)?;
    reply.integer(i64::from(is_filled));
    Ok(())
}
