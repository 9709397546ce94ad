//! The range in which BITCOUNT and BITPOS look: from one byte or bit to another, both included.

use std::ops::Range;

use crate::handler::error::CommandError;
use crate::handler::request::Args;

/// What the positions of a range count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Byte,
    Bit,
}

/// A range as a request gives it; negative positions count from the end of the string.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitRange {
    pub start: i64,
    pub end: i64,
    pub unit: Unit,
}

impl Unit {
    /// Reads argument `index`, where the request has it.
    ///
    /// # Errors
    /// When it is no unit.
    pub fn parse(args: Args<'_>, index: usize) -> Result<Unit, CommandError> {
        if index >= args.len() || args.is(index, "BYTE") {
            Ok(Unit::Byte)
        } else if args.is(index, "BIT") {
            Ok(Unit::Bit)
        } else {
            Err(CommandError::Syntax)
        }
    }
}

impl BitRange {
    /// The whole string.
    pub const WHOLE: BitRange = BitRange { start: 0, end: -1, unit: Unit::Byte };

    /// Returns the bits of a string of `length` bytes that lie in the range; all of them exist.
    pub fn bits(self, length: usize) -> Range<u64> {
        let unit_bits = if self.unit == Unit::Byte { 8 } else { 1 };
        let count = length as i64 * 8 / unit_bits;
        let position = |index: i64| if index < 0 { (index + count).max(0) } else { index };
        let (first, last) = (position(self.start), position(self.end).min(count - 1));
        match first <= last {
            true => (first * unit_bits) as u64..((last + 1) * unit_bits) as u64,
            false => 0..0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_within_the_string() {
        let bits = |start, end, unit, length| BitRange { start, end, unit }.bits(length);
        assert_eq!(bits(0, -1, Unit::Byte, 3), 0..24);
        assert_eq!(bits(-2, 1, Unit::Byte, 3), 8..16);
        assert_eq!(bits(-3, 100, Unit::Bit, 3), 21..24);
        assert_eq!(bits(i64::MIN, i64::MAX, Unit::Bit, 3), 0..24);
        assert!(bits(2, 1, Unit::Byte, 3).is_empty());
        assert!(bits(0, -1, Unit::Byte, 0).is_empty());
        assert!(bits(24, 30, Unit::Bit, 3).is_empty());
    }
}
