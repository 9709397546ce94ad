//! What the commands on times of fields share: how a request names fields, and writes a time.

use base::UnixMs;
use base::number::parse_i64;
use collections::FIELD_TIME_MS_MAX;

use crate::parse::time_to_live::TimeForm;
use crate::prelude::*;

/// The latest time that a request may give a field, in milliseconds: Redis keeps two bits of its
/// own for later.
const REQUESTED_MS_MAX: i64 = FIELD_TIME_MS_MAX >> 2;

/// The reply where there is no such field.
pub(super) const NO_FIELD: i64 = -2;
/// The reply where the field does not expire.
pub(super) const ENDLESS: i64 = -1;

const NO_FIELDS: CommandError =
    CommandError::Fixed("ERR Mandatory argument FIELDS is missing or not at the right position");
pub(super) const NOT_A_COUNT: CommandError =
    CommandError::Fixed("ERR Number of fields must be a positive integer");
const WRONG_COUNT: CommandError =
    CommandError::Fixed("ERR The `numfields` parameter must match the number of arguments");
const NEGATIVE: CommandError = CommandError::Fixed("ERR invalid expire time, must be >= 0");

/// The fields of a request, behind how many they are.
pub(super) const FIELDS: Arg =
    Arg::block("fields", &[Arg::count_of_next("numfields"), Arg::part("field").multiple()])
        .token("FIELDS");

/// Returns the position of the first field, where the word FIELDS is at position `at`; what is not
/// a number of fields is refused with `not_a_count`.
///
/// # Errors
/// When the word is not there, or the number behind it is not that of the fields.
pub(super) fn first_field(
    args: Args<'_>,
    at: usize,
    not_a_count: CommandError,
) -> Result<usize, CommandError> {
    if at >= args.len() || !args.is(at, "FIELDS") {
        return Err(NO_FIELDS);
    }
    let first = at + 2;
    let count = (at + 1 < args.len()).then(|| parse_i64(args.at(at + 1))).flatten();
    match count {
        Some(count @ 1..) if count == args.len() as i64 - first as i64 => Ok(first),
        Some(1..) => Err(WRONG_COUNT),
        _ => Err(not_a_count),
    }
}

/// Returns the time that `text` is in `form`, as `command` takes it for a field.
///
/// # Errors
/// When it is no integer, negative, or beyond what a field may have.
pub(super) fn field_time(
    text: &[u8],
    form: TimeForm,
    now: UnixMs,
    command: &'static Command,
) -> Result<UnixMs, CommandError> {
    let number = parse_i64(text).ok_or(CommandError::NotInteger)?;
    if number < 0 {
        return Err(NEGATIVE);
    }
    let at = form.at(number, now, command)?;
    match (0..=REQUESTED_MS_MAX).contains(&at.0) {
        true => Ok(at),
        false => Err(CommandError::InvalidExpire(command)),
    }
}
