//! OBJECT FREQ: how often a key is used.

use crate::prelude::*;

const NOT_COUNTED: CommandError = CommandError::Fixed(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
     when switching between policies at runtime LRU and LFU data will take some time to adjust.",
);

pub(super) static FREQ: Command = Command {
    name: "object|freq",
    summary: "Returns the counter of accesses of a key, which is logarithmic.",
    since: "4.0.0",
    arity: Arity::exactly(3),
    keys: &[KeySpec::at(2, KeyFlags::RO)],
    args: &[Arg::key("key")],
    tips: &["nondeterministic_output"],
    example: "> OBJECT FREQ lake\n(nil)",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let Some(entry) = cx.view.peek(key) else {
        reply.null();
        return Ok(());
    };
    let counter = cx.view.access_counter(key, &entry).ok_or(NOT_COUNTED)?;
    reply.integer(i64::from(counter));
    Ok(())
}
