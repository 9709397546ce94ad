//! Names that clients give themselves: what is printed in CLIENT LIST must not break its lines.

use crate::error::CommandError;

const BAD_NAME: CommandError =
    CommandError::Fixed("ERR Client names cannot contain spaces, newlines or special characters.");

/// Returns whether every byte is printable ASCII and no space.
pub(crate) fn is_printable(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}

/// Checks the name of a client.
///
/// # Errors
/// When it is not printable.
pub(crate) fn check_name(name: &[u8]) -> Result<(), CommandError> {
    if is_printable(name) { Ok(()) } else { Err(BAD_NAME) }
}
