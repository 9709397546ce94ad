//! OBJECT IDLETIME: for how long a key has not been used.

use super::freq::FREQ;
use crate::prelude::*;

const COUNTED: CommandError = CommandError::Fixed(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
     switching between policies at runtime LRU and LFU data will take some time to adjust.",
);

pub(super) static IDLETIME: Command = Command {
    name: "object|idletime",
    summary: "Returns the seconds since a key was used last.",
    since: "2.2.3",
    example: "> SET lake deep\nOK\n> OBJECT IDLETIME lake\n(integer) 0",
    handler: Handler::Read(run),
    ..FREQ
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let Some(entry) = cx.view.peek(key) else {
        reply.null();
        return Ok(());
    };
    let idle = cx.view.idle_seconds(key, &entry);
    let is_counted = cx.view.access_counter(key, &entry).is_some();
    reply.integer(idle.filter(|_| !is_counted).ok_or(COUNTED)? as i64);
    Ok(())
}
