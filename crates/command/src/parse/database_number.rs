//! Databases as requests name them.

use base::DatabaseIndex;
use base::number::parse_i64;

use crate::handler::error::CommandError;

/// Why a text is no number of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// It is no 64-bit integer.
    NotInteger,
    /// It is beyond C's `int`, as Redis checks first.
    OutOfRange,
}

/// Reads the number of a database, which need not exist.
///
/// # Errors
/// When `text` is none.
pub(crate) fn database_number(text: &[u8]) -> Result<i32, NumberError> {
    let number = parse_i64(text).ok_or(NumberError::NotInteger)?;
    i32::try_from(number).map_err(|_| NumberError::OutOfRange)
}

/// Returns the database that argument `text` of MOVE or COPY names.
///
/// # Errors
/// When it is none of `count`.
pub(crate) fn database_argument(text: &[u8], count: usize) -> Result<DatabaseIndex, CommandError> {
    let number = database_number(text).map_err(|error| match error {
        NumberError::NotInteger => CommandError::NotInteger,
        NumberError::OutOfRange => BEYOND_INT,
    })?;
    database_index(number, count)
}

const BEYOND_INT: CommandError =
    CommandError::Fixed("ERR value is out of range, value must between -2147483648 and 2147483647");

/// Returns the database with this number.
///
/// # Errors
/// When there are only `count` databases.
pub(crate) fn database_index(number: i32, count: usize) -> Result<DatabaseIndex, CommandError> {
    match u8::try_from(number) {
        Ok(index) if usize::from(index) < count => Ok(DatabaseIndex(index)),
        _ => Err(CommandError::DATABASE_OUT_OF_RANGE),
    }
}
