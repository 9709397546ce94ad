//! The number of a bit within a string.

use base::number::parse_i64;

use crate::handler::error::CommandError;

const OUT_OF_RANGE: CommandError =
    CommandError::Fixed("ERR bit offset is not an integer or out of range");

/// Returns the bit that `text` names, in a string of at most `value_bytes_max` bytes.
///
/// # Errors
/// When it is no number, negative, or beyond that string.
///
/// Source: Redis, getBitOffsetFromArgument.
pub(super) fn parse_bit_offset(text: &[u8], value_bytes_max: u64) -> Result<u64, CommandError> {
    check(parse_i64(text), value_bytes_max)
}

/// Checks an offset that was computed, or is none.
pub(super) fn check(offset: Option<i64>, value_bytes_max: u64) -> Result<u64, CommandError> {
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < value_bytes_max).ok_or(OUT_OF_RANGE)
}
