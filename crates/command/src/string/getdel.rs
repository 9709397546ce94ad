//! GETDEL: the string at a key, which is removed.

use super::reply::reply_string;
use crate::prelude::*;

pub(super) static GETDEL: Command = Command {
    name: "getdel",
    summary: "Returns the string at a key and removes the key.",
    since: "6.2.0",
    group: Group::String,
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE))],
    args: &[Arg::key("key")],
    example: "> SET lake deep\nOK\n> GETDEL lake\n\"deep\"\n> GET lake\n(nil)",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    reply_string(cx.view.as_read(), key, reply)?;
    cx.view.remove(key);
    Ok(())
}
