//! APPEND: more at the end of a string.

use crate::prelude::*;

pub(super) static APPEND: Command = Command {
    name: "append",
    summary: "Appends to the string at a key and returns its new length.",
    since: "2.0.0",
    complexity: "O(N), N being the appended bytes; amortised, as room is kept ahead",
    group: Group::String,
    arity: Arity::exactly(3),
    flags: Flags::DENYOOM.with(Flags::FAST),
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::INSERT))],
    args: &[Arg::key("key"), Arg::string("value")],
    example: "> APPEND lake deep\n(integer) 4\n\
        > APPEND lake er\n(integer) 6\n\
        > GET lake\n\"deeper\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let suffix = args.at(2);
    let length = cx.view.string(key)?.map(<[u8]>::len);
    if let Some(length) = length {
        cx.check_value_bytes(length as u64, suffix.len())?;
    }
    let length = cx.view.append(key, suffix)?;
    reply.integer(length as i64);
    Ok(())
}
