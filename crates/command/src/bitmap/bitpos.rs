//! BITPOS: where the first bit of a kind is.

use std::ops::Range;

use super::bit_range::{BitRange, Unit};
use crate::prelude::*;

const NO_BIT: CommandError = CommandError::Fixed("ERR The bit argument must be 1 or 0.");

pub(super) static BITPOS: Command = Command {
    name: "bitpos",
    summary: "Returns where the first bit that is set, or clear, is in a string or range.",
    since: "2.8.7",
    complexity: "O(N), N being the bytes up to that bit",
    group: Group::Bitmap,
    arity: Arity::at_least(3),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::integer("bit").within(0, 1),
        Arg::block(
            "range",
            &[
                Arg::integer("start").within(-50, 50),
                Arg::block(
                    "end-unit-block",
                    &[
                        Arg::integer("end").within(-50, 50),
                        Arg::one_of("unit", &[Arg::word("byte", "BYTE"), Arg::word("bit", "BIT")])
                            .since("7.0.0")
                            .optional(),
                    ],
                )
                .optional(),
            ],
        )
        .optional(),
    ],
    history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
    example: "> SET lake deep\nOK\n\
        > BITPOS lake 1\n(integer) 1\n\
        > BITPOS lake 1 1\n(integer) 9\n\
        > BITPOS lake 0 1 2 BIT\n(integer) -1",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let bit = args.integer(2)?;
    if !matches!(bit, 0 | 1) {
        return Err(NO_BIT.into());
    }
    let position = match cx.string(args.key(0))? {
        // All its bits are 0, in every range, and even where that is none: Redis looks at the key
        // first.
        None => -bit,
        Some(value) => {
            let bits = range_of(args)?.bits(value.len());
            // Without an end, zeroes follow the string; but an empty range has nothing behind it.
            let has_zeroes_behind = bit == 0 && args.len() < 5 && !bits.is_empty();
            let behind = if has_zeroes_behind { bits.end as i64 } else { -1 };
            find(value, bit == 1, bits).map_or(behind, |position| position as i64)
        }
    };
    reply.integer(position);
    Ok(())
}

fn range_of(args: Args<'_>) -> Result<BitRange, CommandError> {
    match args.len() {
        3 => Ok(BitRange::WHOLE),
        4..=6 => {
            let start = args.integer(3)?;
            let unit = Unit::parse(args, 5)?;
            let end = if args.len() > 4 { args.integer(4)? } else { -1 };
            Ok(BitRange { start, end, unit })
        }
        _ => Err(CommandError::Syntax),
    }
}

/// Returns the first of `bits` that is set, or clear, in `value`, which has them all.
fn find(value: &[u8], is_set: bool, bits: Range<u64>) -> Option<u64> {
    if bits.is_empty() {
        return None;
    }
    let skipped = if is_set { 0x00 } else { 0xff };
    let first = (bits.start / 8) as usize;
    let bytes = &value[first..bits.end.div_ceil(8) as usize];
    let differing = |index: usize| bytes[index] ^ skipped;
    let of_first = differing(0) & (0xff >> (bits.start % 8));
    let (index, found) = match of_first {
        0 => {
            let index = 1 + count_leading(&bytes[1..], skipped);
            (index, if index < bytes.len() { differing(index) } else { return None })
        }
        found => (0, found),
    };
    let position = (first + index) as u64 * 8 + u64::from(found.leading_zeros());
    (position < bits.end).then_some(position)
}

/// Returns how many bytes at the start are `byte`.
fn count_leading(bytes: &[u8], byte: u8) -> usize {
    /// Looked at as one: wide registers hold them, and one branch is for all.
    const BLOCK_BYTES: usize = 128;
    let (blocks, _) = bytes.as_chunks::<BLOCK_BYTES>();
    let is_same = |block: &&[u8; BLOCK_BYTES]| {
        block.iter().fold(0, |differing, found| differing | (found ^ byte)) == 0
    };
    let skipped = BLOCK_BYTES * blocks.iter().take_while(is_same).count();
    skipped + bytes[skipped..].iter().take_while(|&&found| found == byte).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_bytes_are_counted_across_blocks() {
        for length in 0..600 {
            let mut bytes = vec![7; length];
            assert_eq!(count_leading(&bytes, 7), length);
            for other in (0..length).step_by(13) {
                bytes[other] = 9;
                assert_eq!(count_leading(&bytes, 7), other, "of {length}");
                bytes[other] = 7;
            }
        }
    }

    #[test]
    fn every_range_finds_its_first_bit() {
        let mut value = [0; 19];
        (value[3], value[14], value[17]) = (0x04, 0xff, 0x01);
        let inverse = value.map(|byte: u8| !byte);
        let is_set = |bit: u64| value[(bit / 8) as usize] >> (7 - bit % 8) & 1 == 1;
        for start in 0..=152 {
            for end in start..=152 {
                let expected = (start..end).find(|&bit| is_set(bit));
                assert_eq!(find(&value, true, start..end), expected, "{start}..{end}");
                assert_eq!(find(&inverse, false, start..end), expected, "{start}..{end}");
            }
        }
    }
}
