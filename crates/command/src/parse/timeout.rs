//! The timeouts of blocking commands.

use std::time::Duration;

use base::UnixMs;
use base::extended::Extended;
use base::number::parse_i64;

use crate::handler::error::CommandError;
use crate::handler::request::Args;

const NOT_INTEGER: CommandError =
    CommandError::Fixed("ERR timeout is not an integer or out of range");
const NOT_FLOAT: CommandError = CommandError::Fixed("ERR timeout is not a float or out of range");
const NEGATIVE: CommandError = CommandError::Fixed("ERR timeout is negative");
const TOO_LONG: CommandError = CommandError::Fixed("ERR timeout is out of range");

/// Returns argument `index` as a time span in seconds that begins at `now`, rounded up to whole
/// milliseconds: only zero is zero, but for what is negative by less than one of them.
///
/// # Errors
/// When it is no number, negative, or ends beyond what 64 bits hold.
///
/// Source: Redis 7.2, getTimeoutFromObjectOrReply.
pub(crate) fn seconds(args: Args<'_>, index: usize, now: UnixMs) -> Result<Duration, CommandError> {
    let number = Extended::parse(args.at(index)).ok_or(NOT_FLOAT)?;
    let span = match number.ceiling_of_product(1_000) {
        None if number.is_negative() => return Err(NEGATIVE),
        None => return Err(TOO_LONG),
        Some(span) => span,
    };
    let positive = u64::try_from(span).map_err(|_| NEGATIVE)?;
    now.0.checked_add(span).ok_or(TOO_LONG)?;
    Ok(Duration::from_millis(positive))
}

/// Returns argument `index` as a time span in milliseconds that begins at `now`.
///
/// # Errors
/// When it is no number, negative, or ends beyond what 64 bits hold.
///
/// Source: Redis 7.2, getTimeoutFromObjectOrReply.
pub(crate) fn milliseconds(
    args: Args<'_>,
    index: usize,
    now: UnixMs,
) -> Result<Duration, CommandError> {
    let span = parse_i64(args.at(index)).ok_or(NOT_INTEGER)?;
    let positive = u64::try_from(span).map_err(|_| NEGATIVE)?;
    now.0.checked_add(span).ok_or(TOO_LONG)?;
    Ok(Duration::from_millis(positive))
}
