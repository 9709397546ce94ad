//! AWAIT: until a key is there.

use crate::blocked::Blocked;
use crate::prelude::*;
use crate::timeout;

/// The row.
pub static AWAIT: Command = Command {
    name: "await",
    summary: "Returns the first of the keys that exists; waits until one does.",
    since: "7.2.4",
    complexity: "O(N), N being the number of keys",
    arity: Arity::at_least(3),
    flags: Flags::BLOCKING,
    keys: &[KeySpec::all_but_last_from(1, KeyFlags::RO)],
    args: &[Arg::key("key").multiple(), Arg::double("timeout").only_within(1, 2)],
    note: "A command of Forebay, which Redis does not have. The timeout is in seconds, 0 is none; \
        null is the reply once it has passed, and at once inside MULTI. Those who wait for one key \
        are told in the order in which they came, and all of them.",
    example: "> SET lake deep\nOK\n> AWAIT river lake 0.5\n\"lake\"\n> AWAIT river 0.01\n(nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let timeout = timeout::seconds(args, args.len() - 1, cx.now())?;
    let found = args.keys().iter().find(|key| cx.view.peek(key).is_some());
    let Some(key) = found else {
        let timeout = Some(timeout).filter(|timeout| !timeout.is_zero());
        let at_key = Some(key_is_there as fn(&[u8], &mut Reply<'_>));
        return Err(CommandError::Wait(Blocked { timeout, at_timeout: no_key_is_there, at_key }));
    };
    reply.bulk(key.bytes);
    Ok(())
}

fn key_is_there(key: &[u8], reply: &mut Reply<'_>) {
    reply.bulk(key);
}

fn no_key_is_there(reply: &mut Reply<'_>) {
    reply.null();
}
