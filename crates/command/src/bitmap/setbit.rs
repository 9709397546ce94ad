//! SETBIT: another bit within a string.

use base::number::parse_i64;

use super::bit_offset::parse_bit_offset;
use crate::prelude::*;

const NO_BIT: CommandError = CommandError::Fixed("ERR bit is not an integer or out of range");

pub(super) static SETBIT: Command = Command {
    name: "setbit",
    summary: "Sets the bit of a string at an offset and returns the one that was there.",
    since: "2.2.0",
    complexity: "O(1); O(N) where the string grows, N being the new bytes",
    group: Group::Bitmap,
    arity: Arity::exactly(4),
    flags: Flags::DENYOOM,
    keys: &[KeySpec::at(1, KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE))],
    args: &[
        Arg::key("key"),
        Arg::integer("offset").within(0, 300),
        Arg::integer("value").within(0, 1),
    ],
    example: "> SET lake deep\nOK\n> SETBIT lake 3 1\n(integer) 0\n> GET lake\n\"teep\"",
    handler: Handler::Write(run),
    ..Command::DEFAULT
};

fn run(cx: &mut WriteContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let key = args.key(0);
    let offset = parse_bit_offset(args.at(2), cx.value_bytes_max)?;
    let bit = parse_i64(args.at(3)).filter(|bit| matches!(bit, 0 | 1)).ok_or(NO_BIT)?;
    let index = (offset / 8) as usize;
    let found = cx.view.string(key)?.unwrap_or_default().get(index).copied();
    let (byte, shift) = (found.unwrap_or(0), 7 - offset % 8);
    let changed = byte & !(1 << shift) | (bit as u8) << shift;
    cx.view.name_event("setbit");
    match found == Some(changed) {
        // Nobody is told of a bit that stays, but it is no longer a number.
        true => cx.view.make_raw(key)?,
        false => drop(cx.view.set_range(key, index, &[changed])?),
    }
    reply.integer(i64::from(byte >> shift & 1));
    Ok(())
}
