//! GETSET: a new string for the old one.

use keyspace::Expiry;

use super::reply::reply_string;
use crate::prelude::*;

pub(super) static GETSET: Command = Command {
    name: "getset",
    summary: "Makes a key hold a string and returns the one that it held before.",
    since: "1.0.0",
    group: Group::String,
    arity: Arity::exactly(3),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    value_at: Some(2),
    args: &[Arg::key("key"), Arg::string("value")],
    deprecated: Some(("6.2.0", "`SET` with the `!GET` argument")),
    example: "> SET lake deep\nOK\n> GETSET lake wide\n\"deep\"\n> GET lake\n\"wide\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    reply_string(cx.view.as_read(), key, reply)?;
    cx.view.set(key, args.at(2), Expiry::Clear)?;
    Ok(())
}
