//! HGETEX: the values of fields, which get a time to live or lose it.

use base::UnixMs;
use collections::Hash;
use keyspace::TimeCondition;

use super::field_times::{FIELDS, NOT_A_COUNT, field_time, first_field};
use super::hgetdel::take;
use super::hpersist::persist;
use crate::handler::element::reply_element;
use crate::parse::time_to_live::{EX, EXAT, PX, PXAT, TimeForm};
use crate::prelude::*;

pub(super) static HGETEX: Command = Command {
    name: "hgetex",
    summary: "Returns the values of fields of a hash, and changes when they expire.",
    since: "8.0.0",
    complexity: "O(N), N being the fields that are named",
    group: Group::Hash,
    arity: Arity::at_least(5),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))
        .note("RW and UPDATE because it changes the TTL")],
    args: &[
        Arg::key("key"),
        Arg::one_of("expiration", &[EX, PX, EXAT, PXAT, Arg::word("persist", "PERSIST")])
            .optional(),
        FIELDS,
    ],
    note: "A command of Redis 8.",
    example: "> HSET lake depth 12\n(integer) 1\n\
        > HGETEX lake EX 60 FIELDS 2 depth colour\n1) \"12\"\n2) (nil)\n\
        > HTTL lake FIELDS 1 depth\n1) (integer) 60",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

/// What becomes of the times.
enum Change {
    None,
    Persist,
    Set(UnixMs),
}

/// Source: Redis 8, `hgetexCommand`.
fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    cx.view.collection::<Hash>(key)?;
    let (change, fields_at) = match TimeForm::named(args.at(2)) {
        Some(form) => (Change::Set(field_time(args.at(3), form, cx.now(), &HGETEX)?), 4),
        None if args.is(2, "PERSIST") => (Change::Persist, 3),
        None => (Change::None, 2),
    };
    let first = first_field(args, fields_at, NOT_A_COUNT)?;
    let fields = args.from(first);
    if let Change::Set(at) = change
        && at <= cx.now()
    {
        let taken = take(cx, args, first, reply)?;
        cx.view.count_expired_fields(key, taken);
        return Ok(());
    }
    let hash = cx.view.collection::<Hash>(key)?;
    reply.array(fields.len());
    for field in fields.clone() {
        match hash.and_then(|hash| hash.get(field, cx.view.rules(key))) {
            Some(value) => reply_element(value, reply),
            None => reply.null(),
        }
    }
    match change {
        Change::Set(at) => {
            cx.view.set_field_times(key, at, TimeCondition::Always, fields)?;
        }
        Change::Persist => {
            persist(cx, args, &fields, |_| {})?;
        }
        // Those that have expired go all the same.
        Change::None => cx.view.remove_expired_fields(key, fields)?,
    }
    Ok(())
}
