//! PFCOUNT: how many different elements there have been.

use std::convert::Infallible;
use std::iter;

use collections::hyperloglog::{HyperLogLog, Registers, keep_count};
use keyspace::{Encoding, NO_EVENT, Refusal, ValueType, text_of};

use super::merge_keys;
use crate::prelude::*;

pub(super) static PFCOUNT: Command = Command {
    name: "pfcount",
    summary: "Returns about how many different elements HyperLogLogs have had in all.",
    since: "2.8.9",
    complexity: "O(1) for one key, whose count is kept until an element changes it; else O(N), N \
                 being the keys",
    group: Group::HyperLogLog,
    arity: Arity::at_least(2),
    flags: Flags::MAY_REPLICATE.with(Flags::EFFECT),
    keys: &[KeySpec::all_from(1, KeyFlags::RW.with(KeyFlags::ACCESS)).note(
        "RW because it may change the internal representation of the key, and propagate to \
         replicas",
    )],
    args: &[Arg::key("key").multiple()],
    example: "> PFADD monday ann bob\n(integer) 1\n\
        > PFADD tuesday bob eve\n(integer) 1\n\
        > PFCOUNT monday\n(integer) 2\n\
        > PFCOUNT monday tuesday\n(integer) 3",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let count = match args.keys() {
        [_] => count_one(cx, args)?,
        _ => {
            let mut registers = Registers::default();
            merge_keys(cx, args, &mut registers)?;
            registers.count()
        }
    };
    reply.integer(count as i64);
    Ok(())
}

/// Returns the count of the one key, and keeps it in the value.
fn count_one(cx: &mut WriteContext<'_>, args: Args<'_>) -> Result<u64, Unfinished> {
    let key = args.key(0);
    let Some(entry) = cx.view.as_read().entry(key) else { return Ok(0) };
    if entry.value_type() != ValueType::String {
        return Err(CommandError::WrongType.into());
    }
    let is_raw = entry.encoding() == Encoding::Raw;
    let log = HyperLogLog::parse(text_of(&entry)).map_err(CommandError::from)?;
    let (count, is_kept) = match log.kept_count() {
        Some(count) => (count, true),
        None => (log.count().map_err(CommandError::from)?, false),
    };
    if is_kept && is_raw || !cx.admits_writes {
        return Ok(count);
    }
    let kept = match is_kept {
        true => cx.view.make_raw(key).map_err(Refusal::from),
        false => {
            let kept = cx.view.change_string(key, |_, change| {
                change.add(("PFCOUNT", NO_EVENT), iter::empty());
                Ok::<_, Infallible>((keep_count(count), ()))
            });
            kept.map(|Ok(())| ())
        }
    };
    match kept {
        // Nobody is refused a count because there is no room to keep it.
        Ok(()) | Err(Refusal::NeedRoom(_)) => Ok(count),
        Err(Refusal::WrongType) => unreachable!("it was a string just now"),
    }
}
