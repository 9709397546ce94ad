//! LDEL, LFREE and LEXTEND: what becomes of a lease, and of a value that is no longer true.

use keyspace::LeaseToken;

use super::lget::MS_MAX;
use crate::prelude::*;

/// The longest time for which a value is kept once it is stale, in milliseconds: a year.
pub(super) const GRACE_MS_MAX: i64 = 365 * 86_400_000;

pub(super) static LDEL: Command = Command {
    name: "ldel",
    summary: "Removes a key, or keeps its string as a stale one, and voids the key's lease.",
    since: "7.2.4",
    group: Group::String,
    arity: Arity::at_least(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RM.with(KeyFlags::DELETE))],
    args: &[
        Arg::key("key"),
        Arg::integer("milliseconds").token("STALE").within(1, 100_000).optional(),
    ],
    note: "A command of Forebay, which Redis does not have. With STALE the key is gone for all \
        commands but LGET with STALE, which finds its value for so many milliseconds more, if \
        there is memory for that. Like DEL it takes the right to fill the key from whoever has \
        it. The reply is 1 where the key was there.",
    example: "> SET lake deep\nOK\n> LDEL lake STALE 60000\n(integer) 1\n> GET lake\n(nil)",
    handler: Handler::Write(delete),
    ..Command::DEFAULT
};

pub(super) static LFREE: Command = Command {
    name: "lfree",
    summary: "Gives up the right to fill a key, which the next one gets who waits.",
    since: "7.2.4",
    group: Group::String,
    arity: Arity::exactly(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::OW)],
    args: &[Arg::key("key"), Arg::integer("token")],
    note: "A command of Forebay, which Redis does not have. The reply is 1 where the lease went \
        on.",
    example: "> LFREE lake 7\n(integer) 0",
    handler: Handler::Write(|cx, args, reply| {
        let token = LeaseToken::of(args.integer(2)?);
        reply.integer(i64::from(cx.view.free_lease(args.key(0), token)));
        Ok(())
    }),
    ..Command::DEFAULT
};

pub(super) static LEXTEND: Command = Command {
    name: "lextend",
    summary: "Makes the right to fill a key last for so many milliseconds from now on.",
    since: "7.2.4",
    group: Group::String,
    arity: Arity::exactly(4),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::OW)],
    args: &[Arg::key("key"), Arg::integer("token"), Arg::integer("milliseconds").within(1, 10_000)],
    note: "A command of Forebay, which Redis does not have. The reply is 1 where the lease went \
        on.",
    example: "> LEXTEND lake 7 10000\n(integer) 0",
    handler: Handler::Write(|cx, args, reply| {
        let token = LeaseToken::of(args.integer(2)?);
        let ms = args.integer_in(3, 1, MS_MAX)? as u64;
        reply.integer(i64::from(cx.view.extend_lease(args.key(0), token, ms)));
        Ok(())
    }),
    ..Command::DEFAULT
};

fn delete(
    cx: &mut WriteContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Unfinished> {
    let key = args.key(0);
    let was_there = match args.len() {
        2 => cx.view.remove(key),
        4 if args.is(2, "STALE") => match args.integer_in(3, 0, GRACE_MS_MAX)? as u64 {
            0 => cx.view.remove(key),
            grace_ms => cx.view.make_stale(key, grace_ms)?,
        },
        _ => return Err(CommandError::Syntax.into()),
    };
    reply.integer(i64::from(was_there));
    Ok(())
}
