//! SETNX: a string for an absent key.

use keyspace::Expiry;

use crate::prelude::*;

pub(super) static SETNX: Command = Command {
    name: "setnx",
    summary: "Makes a key hold a string if the key does not exist.",
    since: "1.0.0",
    group: Group::String,
    arity: Arity::exactly(3),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::OW.with(KeyFlags::INSERT))],
    value_at: Some(2),
    args: &[Arg::key("key"), Arg::string("value")],
    deprecated: Some(("2.6.12", "`SET` with the `NX` argument")),
    example: "> SETNX lake deep\n(integer) 1\n> SETNX lake wide\n(integer) 0",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let is_absent = !cx.view.contains(key);
    if is_absent {
        cx.view.set(key, args.at(2), Expiry::Clear)?;
    }
    reply.integer(i64::from(is_absent));
    Ok(())
}
