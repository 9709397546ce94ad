//! TTL: when a key expires.

use super::remaining_time::{Origin, nearest_second, reply_time};
use crate::prelude::*;

pub(super) static TTL: Command = Command {
    name: "ttl",
    summary: "Returns the seconds until a key expires.",
    since: "1.0.0",
    arity: Arity::exactly(2),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key")],
    history: &[("2.8.0", "Added the -2 reply.")],
    tips: &["nondeterministic_output"],
    example: "> SET lake deep EX 60\nOK\n> TTL lake\n(integer) 60\n> TTL river\n(integer) -2",
    handler: Handler::Read(run),
    returns_times: true,
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    reply_time(cx, args, reply, Origin::Now, nearest_second);
    Ok(())
}
