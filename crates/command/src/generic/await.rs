//! AWAIT: until a key is there.

use crate::parse::timeout;
use crate::prelude::*;

pub(super) static AWAIT: Command = Command {
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

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let timeout = timeout::seconds(args, args.len() - 1, cx.now())?;
    let found = args.keys().iter().find(|key| cx.view.peek(key).is_some());
    let Some(key) = found else {
        return Err(Wait::new(timeout, |reply| reply.null(), args.keys().len()).into());
    };
    reply.bulk(key.bytes);
    Ok(())
}
