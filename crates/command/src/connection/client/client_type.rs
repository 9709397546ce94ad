//! The types of sessions that CLIENT LIST and CLIENT KILL choose by.

use crate::handler::error::{CommandError, quoted};

/// A type of session. Monitors are normal sessions, as in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientType {
    /// What every session is.
    Normal,
    /// A type that no session has.
    Absent,
}

impl ClientType {
    /// Returns the type called `name`, in any case.
    ///
    /// # Errors
    /// When there is no such type.
    pub fn named(name: &[u8]) -> Result<ClientType, CommandError> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(ClientType::Normal),
            b"slave" | b"replica" | b"pubsub" | b"master" => Ok(ClientType::Absent),
            _ => {
                let shown = quoted(name, usize::MAX);
                Err(CommandError::text_of(&[b"ERR Unknown client type '", shown, b"'"]))
            }
        }
    }
}
