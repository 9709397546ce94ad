//! Why something cannot be had from a server.

use std::fmt;
use std::io;

use arena::reader::OpenError;
use resp::Value as Reply;

/// Why a session cannot attach or read.
#[derive(Debug)]
pub enum AttachError {
    /// The socket or a mapping failed.
    Io(io::Error),
    /// The server refused, in its words.
    Refused(String),
    /// The server answered something else than the protocol says.
    Unexpected(String),
    /// The memory is not an arena that this client can read.
    Arena(OpenError),
    /// The key holds another type than a string.
    WrongType,
}

impl fmt::Display for AttachError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::Io(error) => error.fmt(formatter),
            AttachError::Refused(text) => formatter.write_str(text),
            AttachError::Unexpected(text) => write!(formatter, "unexpected reply: {text}"),
            AttachError::Arena(error) => error.fmt(formatter),
            AttachError::WrongType => {
                formatter.write_str("the key holds another type than a string")
            }
        }
    }
}

impl std::error::Error for AttachError {}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> AttachError {
        AttachError::Io(error)
    }
}

/// Returns the error that `reply` came where another was due.
pub fn unexpected(reply: &Reply) -> AttachError {
    AttachError::Unexpected(format!("{reply:?}"))
}

/// Returns what a request is answered that the server refuses with `reply`, or the reply.
pub fn accepted(reply: Reply) -> Result<Reply, AttachError> {
    match reply {
        Reply::Error(text) if text.starts_with(b"WRONGTYPE") => Err(AttachError::WrongType),
        Reply::Error(text) => {
            Err(AttachError::Refused(String::from_utf8_lossy(&text).into_owned()))
        }
        reply => Ok(reply),
    }
}
