//! Names that clients give themselves: what is printed in CLIENT LIST must not break its lines.

use crate::handler::error::CommandError;

const BAD_NAME: CommandError =
    CommandError::Fixed("ERR Client names cannot contain spaces, newlines or special characters.");

/// How a client calls itself; empty is not at all. Whoever shows the names sees by
/// [`ClientNames::changes`] that there are others.
#[derive(Debug, Default)]
pub struct ClientNames {
    session: Box<[u8]>,
    library: Box<[u8]>,
    library_version: Box<[u8]>,
    changes: u64,
}

impl ClientNames {
    /// Returns what CLIENT SETNAME gave.
    pub fn session(&self) -> &[u8] {
        &self.session
    }

    /// Returns what CLIENT SETINFO gave as `lib-name`.
    pub fn library(&self) -> &[u8] {
        &self.library
    }

    /// Returns what CLIENT SETINFO gave as `lib-ver`.
    pub fn library_version(&self) -> &[u8] {
        &self.library_version
    }

    /// Returns how often any of them was set.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the bytes that they take.
    pub fn memory_bytes(&self) -> usize {
        self.session.len() + self.library.len() + self.library_version.len()
    }

    /// Sets the name of the session.
    pub fn set_session(&mut self, name: &[u8]) {
        self.session = name.into();
        self.changes += 1;
    }

    /// Sets the name of the library.
    pub fn set_library(&mut self, name: &[u8]) {
        self.library = name.into();
        self.changes += 1;
    }

    /// Sets the version of the library.
    pub fn set_library_version(&mut self, version: &[u8]) {
        self.library_version = version.into();
        self.changes += 1;
    }
}

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
