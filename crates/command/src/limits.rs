//! Bounds that several commands check.

use crate::error::CommandError;

/// The longest string value: 512 MiB, what `proto-max-bulk-len` is by default.
pub(crate) const VALUE_BYTES_MAX: u64 = 512 << 20;

/// Checks that a string of `bytes` and `more` bytes together may exist.
///
/// # Errors
/// When it is too long.
pub(crate) fn check_value_bytes(bytes: u64, more: usize) -> Result<(), CommandError> {
    match bytes.checked_add(more as u64) {
        Some(..=VALUE_BYTES_MAX) => Ok(()),
        _ => Err(CommandError::STRING_TOO_LONG),
    }
}
