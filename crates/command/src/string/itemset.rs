//! ITEMSET: makes a key hold an item of memcached, in full.

use keyspace::{Expiry, ITEM_STATES, ItemTail};

use crate::prelude::*;
use base::UnixMs;
use base::number::parse_i64;

const NO_ITEM: CommandError = CommandError::Fixed("ERR Invalid item");

pub(super) static ITEMSET: Command = Command {
    name: "itemset",
    summary: "Makes a key hold an item of memcached, all of whose parts are given.",
    since: "7.2.0",
    group: Group::String,
    arity: Arity::exactly(7),
    flags: Flags::DENYOOM.with(Flags::EFFECT),
    keys: &[KeySpec::at(1, KeyFlags::OW.with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::integer("flags").among(&["0", "7"]),
        Arg::integer("unique").among(&["1", "99"]),
        Arg::one_of(
            "state",
            &[
                Arg::word("fresh", ITEM_STATES[0]),
                Arg::word("stale", ITEM_STATES[1]),
                Arg::word("making", ITEM_STATES[2]),
                Arg::word("making-stale", ITEM_STATES[3]),
            ],
        ),
        Arg::integer("expires-at").among(&["0", "4102444800000"]),
        Arg::string("value"),
    ],
    note: "Redis does not have it. It is what logs have where a client of memcached has stored an \
           item: its flags, its unique number (CAS), whether it is stale or in the making, when it \
           expires in milliseconds of Unix time or 0, and its value. A plain command reads and \
           changes the value as that of any string; what changes it makes a string of it, without \
           flags.",
    example: "> ITEMSET lake 7 1 FRESH 0 deep\nOK\n> GET lake\n\"deep\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let number = |index: usize| std::str::from_utf8(args.at(index)).ok()?.parse::<u64>().ok();
    let parts = || {
        let flags = u32::try_from(number(2)?).ok()?;
        // A unique number has 64 bits, with a sign or without.
        let unique = number(3).or_else(|| parse_i64(args.at(3)).map(|it| it as u64))?;
        let tail = ItemTail { flags, unique, ..ItemTail::default() };
        Some((tail.with_state_named(args.at(4))?, parse_i64(args.at(5))?))
    };
    let (tail, at) = parts().ok_or(NO_ITEM)?;
    let expiry = if at == 0 { Expiry::Clear } else { Expiry::At(UnixMs(at)) };
    cx.view.set_item(args.key(0), args.at(6), tail, expiry)?;
    reply.ok();
    Ok(())
}
