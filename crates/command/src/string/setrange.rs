//! SETRANGE: other bytes in the middle of a string.

use crate::prelude::*;

const OFFSET_OUT_OF_RANGE: CommandError = CommandError::Fixed("ERR offset is out of range");

pub(super) static SETRANGE: Command = Command {
    name: "setrange",
    summary: "Overwrites the string at a key from an offset on and returns its length.",
    since: "2.2.0",
    complexity: "O(N), N being the written bytes, those that fill a gap included",
    group: Group::String,
    arity: Arity::exactly(4),
    flags: Flags::DENYOOM,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::UPDATE))],
    args: &[Arg::key("key"), Arg::integer("offset").within(0, 100), Arg::string("value")],
    example: "> SET lake deep\nOK\n> SETRANGE lake 1 rop\n(integer) 4\n> GET lake\n\"drop\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let offset = args.integer(2)?;
    let offset = u64::try_from(offset).map_err(|_| OFFSET_OUT_OF_RANGE)?;
    let (key, bytes) = (args.key(0), args.at(3));
    let length = cx.view.string(key)?.map_or(0, <[u8]>::len);
    if bytes.is_empty() {
        reply.integer(length as i64);
        return Ok(());
    }
    cx.check_value_bytes(offset, bytes.len())?;
    let length = cx.view.set_range(key, offset as usize, bytes)?;
    reply.integer(length as i64);
    Ok(())
}
