//! PTTL: when a key expires.

use super::remaining_time::{Origin, exact, reply_time};
use crate::prelude::*;

pub(super) static PTTL: Command = Command {
    name: "pttl",
    summary: "Returns the milliseconds until a key expires.",
    since: "2.6.0",
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    history: &[("2.8.0", "Added the -2 reply.")],
    tips: &["nondeterministic_output"],
    example: "> SET lake deep\nOK\n> PTTL lake\n(integer) -1",
    handler: Handler::Read(run),
    returns_times: true,
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    reply_time(cx, args, reply, Origin::Now, exact);
    Ok(())
}
