//! EXPIRETIME: when a key expires.

use super::remaining_time::{Origin, nearest_second, reply_time};
use crate::prelude::*;

pub(super) static EXPIRETIME: Command = Command {
    name: "expiretime",
    summary: "Returns the second since the Unix epoch at which a key expires.",
    since: "7.0.0",
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    example: "> SET lake deep EXAT 33177117420\nOK\n> EXPIRETIME lake\n(integer) 33177117420",
    handler: Handler::Read(run),
    returns_times: true,
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    reply_time(cx, args, reply, Origin::UnixEpoch, nearest_second);
    Ok(())
}
