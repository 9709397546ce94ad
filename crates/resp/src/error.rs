//! Protocol errors of a peer, in Redis's words.

use std::fmt;

/// A request that breaks the protocol; the server replies with its text and closes the session.
///
/// `Display` gives the text of the error reply with its code, without the leading `-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline request without line end within `Limits::inline_bytes_max`.
    InlineTooLong,
    /// An inline request whose quotes do not match.
    UnbalancedQuotes,
    /// A `*` line without line end within `Limits::inline_bytes_max`.
    MultibulkCountTooLong,
    /// A `*` line that is not a number or is above `Limits::multibulk_count_max`.
    InvalidMultibulkCount,
    /// More arguments than a session may send before it authenticates.
    UnauthenticatedMultibulkCount,
    /// A `$` line without line end within `Limits::inline_bytes_max`.
    BulkLengthTooLong,
    /// Something else where a `$` had to be.
    ExpectedBulk {
        /// The byte in its place.
        found: u8,
    },
    /// A `$` line that is not a number, is negative or is above `Limits::bulk_bytes_max`.
    InvalidBulkLength,
    /// A longer argument than a session may send before it authenticates.
    UnauthenticatedBulkLength,
}

impl ProtocolError {
    /// Returns the reply's bytes without the leading `-` and the line end.
    ///
    /// Unlike `Display` this keeps a byte that is not text as it was found, as Redis does.
    pub fn text(&self) -> Vec<u8> {
        match *self {
            ProtocolError::ExpectedBulk { found } => {
                let mut text = b"ERR Protocol error: expected '$', got '".to_vec();
                text.extend_from_slice(&[found, b'\'']);
                text
            }
            other => other.to_string().into_bytes(),
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ERR Protocol error: ")?;
        f.write_str(match self {
            ProtocolError::InlineTooLong => "too big inline request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            ProtocolError::MultibulkCountTooLong => "too big mbulk count string",
            ProtocolError::InvalidMultibulkCount => "invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkCount => "unauthenticated multibulk length",
            ProtocolError::BulkLengthTooLong => "too big bulk count string",
            ProtocolError::ExpectedBulk { found } => {
                return write!(f, "expected '$', got '{}'", found.escape_ascii());
            }
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
        })
    }
}

impl std::error::Error for ProtocolError {}
