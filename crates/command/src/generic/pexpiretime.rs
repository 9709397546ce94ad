//! PEXPIRETIME: when a key expires.

use super::remaining_time::{Origin, exact, reply_time};
use crate::prelude::*;

pub(super) static PEXPIRETIME: Command = Command {
    name: "pexpiretime",
    summary: "Returns the millisecond since the Unix epoch at which a key expires.",
    since: "7.0.0",
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    example: "> SET lake deep PXAT 33177117420000\nOK\n\
        > PEXPIRETIME lake\n(integer) 33177117420000",
    handler: Handler::Read(run),
    returns_times: true,
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    reply_time(cx, args, reply, Origin::UnixEpoch, exact);
    Ok(())
}
