//! GETBIT: one bit of a string.

use super::bit_offset::parse_bit_offset;
use crate::prelude::*;

pub(super) static GETBIT: Command = Command {
    name: "getbit",
    summary: "Returns the bit of a string at an offset; beyond the end all bits are 0.",
    since: "2.2.0",
    group: Group::Bitmap,
    arity: Arity::exactly(3),
    flags: Flags::FAST,
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[Arg::key("key"), Arg::integer("offset").within(0, 300)],
    example: "> SETBIT lake 7 1\n(integer) 0\n\
        > GETBIT lake 7\n(integer) 1\n\
        > GETBIT lake 100\n(integer) 0",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let offset = parse_bit_offset(args.at(2), cx.value_bytes_max)?;
    let value = cx.string(args.key(0))?.unwrap_or_default();
    let byte = value.get((offset / 8) as usize).copied().unwrap_or(0);
    reply.integer(i64::from(byte >> (7 - offset % 8) & 1));
    Ok(())
}
