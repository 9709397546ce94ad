//! GET: the string at a key.

use super::reply::reply_string;
use crate::prelude::*;

pub(super) static GET: Command = Command {
    name: "get",
    summary: "Returns the string value of a key.",
    since: "1.0.0",
    complexity: "O(1)",
    group: Group::String,
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    example: "> SET lake deep\nOK\n> GET lake\n\"deep\"\n> GET river\n(nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

// A name of its own keeps its code beside that of other requests (`server/code_order.ld`).
fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    Ok(reply_string(cx.view, args.key(0), reply)?)
}
