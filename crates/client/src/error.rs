//! Why a call of a client failed.

use std::fmt;
use std::io::{self, ErrorKind};

use arena::reader::OpenError;
use resp::Value as Reply;
use sys::fork::Generation;

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

/// Why a [`crate::Client`] has no answer.
#[derive(Debug)]
pub enum ClientError {
    /// The URL is not that of a server.
    Url(String),
    /// The server refused, in its words.
    Refused(String),
    /// The connection cannot be made, or has ended: what was asked may or may not have been done.
    Broken(io::Error),
    /// The client was closed while this waited: what was asked may or may not have been done.
    Closed,
    /// The server was silent for too long: what was asked may or may not have been done.
    TimedOut,
    /// The server answered something else than the protocol says.
    Unexpected(String),
    /// The request was not sent, because it would have no reply of its own.
    Unsupported(String),
    /// This process is a forked child of the one that connected, and has to connect itself.
    Forked,
    /// This process has no memory for a value of so many bytes.
    NoMemory(usize),
}

impl ClientError {
    /// Returns the first word of the server's refusal, such as `WRONGTYPE`.
    pub fn code(&self) -> Option<&str> {
        match self {
            ClientError::Refused(text) => text.split(' ').next(),
            _ => None,
        }
    }

    /// Returns the same error once more, for another who waited for the same.
    pub(crate) fn again(&self) -> ClientError {
        match self {
            ClientError::Url(text) => ClientError::Url(text.clone()),
            ClientError::Refused(text) => ClientError::Refused(text.clone()),
            ClientError::Broken(error) => {
                ClientError::Broken(io::Error::new(error.kind(), error.to_string()))
            }
            ClientError::Closed => ClientError::Closed,
            ClientError::TimedOut => ClientError::TimedOut,
            ClientError::Forked => ClientError::Forked,
            ClientError::NoMemory(length) => ClientError::NoMemory(*length),
            ClientError::Unexpected(text) => ClientError::Unexpected(text.clone()),
            ClientError::Unsupported(text) => ClientError::Unsupported(text.clone()),
        }
    }

    /// Returns what the server would have said of a key that holds no string.
    pub(crate) fn wrong_type() -> ClientError {
        let text = "WRONGTYPE Operation against a key holding the wrong kind of value";
        ClientError::Refused(text.to_owned())
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Url(text) => write!(formatter, "not the URL of a server: {text}"),
            ClientError::Refused(text) => formatter.write_str(text),
            ClientError::Broken(error) => write!(formatter, "no connection: {error}"),
            ClientError::Closed => formatter.write_str("the client is closed"),
            ClientError::TimedOut => formatter.write_str("the server was silent for too long"),
            ClientError::Unexpected(text) => write!(formatter, "unexpected reply: {text}"),
            ClientError::Unsupported(text) => {
                write!(formatter, "not possible over a client's connection: {text}")
            }
            ClientError::Forked => formatter.write_str(FORKED),
            ClientError::NoMemory(length) => write!(formatter, "no memory for {length} bytes"),
        }
    }
}

impl std::error::Error for ClientError {}

/// What is said to a child that uses what its parent has opened.
const FORKED: &str = "the connection is that of the parent process";

/// Fails in a forked child of the process that `generation` is of.
#[inline(always)]
pub fn check_process(generation: Generation) -> io::Result<()> {
    match generation.is_current() {
        true => Ok(()),
        false => Err(io::Error::new(ErrorKind::NotConnected, FORKED)),
    }
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => ClientError::TimedOut,
            // What `closed` returns; a socket that was connected never fails with it.
            ErrorKind::ConnectionAborted => ClientError::Closed,
            _ => ClientError::Broken(error),
        }
    }
}

/// Returns why a wait ends whose client was closed.
pub fn closed() -> io::Error {
    ErrorKind::ConnectionAborted.into()
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
