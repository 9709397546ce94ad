//! MSETEX: strings for several keys at once, on conditions and for a time.

use super::set_options::{Condition, SetOptions};
use crate::parse::time_to_live::{EX, EXAT, PX, PXAT};
use crate::prelude::*;

pub(super) static MSETEX: Command = Command {
    name: "msetex",
    summary: "Makes each key hold the string after it, all or none, for a time if one is said.",
    since: "8.4.0",
    complexity: "O(N), N being the number of keys",
    group: Group::String,
    arity: Arity::at_least(4),
    flags: Flags::DENYOOM,
    keys: &[KeySpec::counted_at(COUNT, KeyFlags::OW.with(KeyFlags::UPDATE)).step(2)],
    args: &[
        Arg::count_of_next("numkeys"),
        Arg::block("data", &[Arg::key("key"), Arg::string("value")]).multiple(),
        Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).optional(),
        Arg::one_of("expiration", &[EX, PX, EXAT, PXAT, Arg::word("keepttl", "KEEPTTL")])
            .optional(),
    ],
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    note: "A command of Redis 8.4.",
    example: "> MSETEX 2 lake deep hill high EX 60\n(integer) 1\n\
        > MSETEX 2 hill low river long NX\n(integer) 0\n\
        > MGET lake hill river\n1) \"deep\"\n2) \"high\"\n3) (nil)",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

/// The position of the number of keys.
const COUNT: u8 = 1;
const INVALID_COUNT: CommandError = CommandError::Fixed("ERR invalid numkeys value");
const MISSING_PAIRS: CommandError = CommandError::Fixed("ERR wrong number of key-value pairs");

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let count = args.integer(COUNT.into()).map_err(|_| INVALID_COUNT)?;
    if !(1..=i64::from(i32::MAX)).contains(&count) {
        return Err(INVALID_COUNT.into());
    }
    let options_at = 2 + 2 * count as usize;
    if options_at > args.len() {
        return Err(MISSING_PAIRS.into());
    }
    let options = SetOptions::of_msetex(args, options_at)?;
    let expiry = options.time.expiry(cx.now(), &MSETEX)?;
    let mut keys = args.keys().iter();
    let is_wanted = match options.condition {
        Some(Condition::Absent) => !keys.any(|key| cx.view.contains(key)),
        Some(Condition::Present) => keys.all(|key| cx.view.contains(key)),
        _ => true,
    };
    if is_wanted {
        for (index, key) in args.keys().iter().enumerate() {
            cx.view.set(key, args.at(2 * index + 3), expiry)?;
        }
    }
    reply.integer(i64::from(is_wanted));
    Ok(())
}
