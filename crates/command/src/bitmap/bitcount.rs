//! BITCOUNT: how many bits of a string are set.

use std::ops::Range;

use super::bit_range::{BitRange, Unit};
use crate::prelude::*;

pub(super) static BITCOUNT: Command = Command {
    name: "bitcount",
    summary: "Returns how many bits of a string are set, in all of it or within a range.",
    since: "2.6.0",
    complexity: "O(N), N being the bytes of the range",
    group: Group::Bitmap,
    arity: Arity::at_least(2),
    keys: &[KeySpec::at(1, KeyFlags::RO.with(KeyFlags::ACCESS))],
    args: &[
        Arg::key("key"),
        Arg::block(
            "range",
            &[
                Arg::integer("start").within(-50, 50),
                Arg::integer("end").within(-50, 50),
                Arg::one_of("unit", &[Arg::word("byte", "BYTE"), Arg::word("bit", "BIT")])
                    .since("7.0.0")
                    .optional(),
            ],
        )
        .optional(),
    ],
    history: &[("7.0.0", "Added the `BYTE|BIT` option.")],
    example: "> SET lake deep\nOK\n\
        > BITCOUNT lake\n(integer) 14\n\
        > BITCOUNT lake 0 1\n(integer) 7\n\
        > BITCOUNT lake 1 4 BIT\n(integer) 2",
    handler: Handler::Read(run),
    ..Command::DEFAULT
};

fn run(cx: &ReadContext<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Unfinished> {
    let count = match cx.string(args.key(0))? {
        // Whatever the range is, and even where it is none: Redis looks at the key first.
        None => 0,
        Some(value) => count(value, bits_of(args, value.len())?),
    };
    reply.integer(count as i64);
    Ok(())
}

/// Returns the bits that the request asks about in a string of `length` bytes.
fn bits_of(args: Args<'_>, length: usize) -> Result<Range<u64>, CommandError> {
    match args.len() {
        2 => Ok(BitRange::WHOLE.bits(length)),
        4 | 5 => {
            let [start, end] = [args.integer(2)?, args.integer(3)?];
            // Empty even where both lie before the first byte, and before the unit is read.
            if start < 0 && end < 0 && start > end {
                return Ok(0..0);
            }
            Ok(BitRange { start, end, unit: Unit::parse(args, 4)? }.bits(length))
        }
        _ => Err(CommandError::Syntax),
    }
}

/// Returns how many of `bits` are set in `value`, which has them all.
fn count(value: &[u8], bits: Range<u64>) -> u64 {
    if bits.is_empty() {
        return 0;
    }
    let last = bits.end - 1;
    let bytes = &value[(bits.start / 8) as usize..=(last / 8) as usize];
    let before = bytes[0] & !(0xff >> (bits.start % 8));
    let behind = bytes[bytes.len() - 1] & ((1 << (7 - last % 8)) - 1);
    count_all(bytes) - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

/// Counts words of eight bytes, several at once where the processor can.
fn count_all(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let of_words = words.iter().map(|&word| u64::from_le_bytes(word).count_ones());
    let of_rest = rest.iter().map(|byte| byte.count_ones());
    of_words.chain(of_rest).map(u64::from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_counts_its_bits() {
        let value: Vec<u8> = (0..19).map(|index: u8| index.wrapping_mul(37)).collect();
        let is_set = |bit: u64| value[(bit / 8) as usize] >> (7 - bit % 8) & 1 == 1;
        for start in 0..=152 {
            for end in start..=152 {
                let expected = (start..end).filter(|&bit| is_set(bit)).count() as u64;
                assert_eq!(count(&value, start..end), expected, "{start}..{end}");
            }
        }
    }
}
