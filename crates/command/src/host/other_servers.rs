//! The part of a host that reaches other servers: where MIGRATE sends keys.

use std::fmt::{self, Debug};
use std::io::Write;
use std::time::Duration;

use base::UnixMs;
use keyspace::Scratch;

use crate::handler::error::CommandError;

/// The way to other servers. No method waits for one, and a caller may hold no shard.
pub trait OtherServers {
    /// Begins what session `session` sends to `target`. Each parcel that it sends then has the host
    /// wake the session ([`crate::Wake::Continued`]), once for each.
    ///
    /// # Errors
    /// When as many are underway as there may be.
    fn begin_transfer(
        &self,
        session: u64,
        target: Target,
    ) -> Result<Box<dyn Transfer>, CommandError>;
}

/// What one session sends to another server. Dropping it gives up what is underway.
pub trait Transfer: Debug + Send {
    /// Sends `parcel`; the one before it has been delivered and taken.
    fn send(&mut self, parcel: Parcel);

    /// Takes what became of the parcel, once that is known.
    fn take_delivery(&mut self) -> Option<Delivery>;
}

/// Where a transfer goes.
#[derive(PartialEq, Eq)]
pub struct Target {
    /// The name or the address, as the peer wrote it.
    pub host: Box<[u8]>,
    /// The port, as the peer wrote it.
    pub port: Box<[u8]>,
    /// What to authenticate with there: the words behind AUTH.
    pub credentials: Vec<Box<[u8]>>,
    /// The number of the database there.
    pub database: i64,
    /// How long a connection, a piece that is sent or a reply may take.
    pub timeout: Duration,
}

impl Debug for Target {
    /// Without the credentials.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (self.host.escape_ascii(), self.port.escape_ascii());
        write!(formatter, "{host}:{port}, database {}", self.database)
    }
}

/// Values for another server, each of which one request has it store.
pub struct Parcel {
    pub values: Vec<SentValue>,
    /// Whether they replace what is there.
    pub replaces: bool,
    /// The right to the memory that they take.
    pub scratch: Option<Scratch>,
}

/// A value for another server.
pub struct SentValue {
    pub key: Box<[u8]>,
    /// What RESTORE takes.
    pub payload: Vec<u8>,
    pub expires_at: Option<UnixMs>,
}

impl SentValue {
    /// Returns whether its time is over at `now`.
    pub fn has_expired(&self, now: UnixMs) -> bool {
        self.expires_at.is_some_and(|at| now > at)
    }

    /// Returns the bytes of memory that it takes.
    pub fn memory_bytes(&self) -> u64 {
        (size_of::<SentValue>() + self.key.len() + self.payload.capacity()) as u64
    }

    /// Appends to `out` the part of its request that stands before the payload. The time to live
    /// is what is left at `now`, so that it is to be sent soon.
    pub fn begin_request(&self, replaces: bool, now: UnixMs, out: &mut Vec<u8>) {
        let ttl = self.expires_at.map_or(0, |at| (at.0 - now.0).max(1)).to_string();
        push_format(out, format_args!("*{}\r\n", if replaces { 5 } else { 4 }));
        for word in [b"RESTORE", &*self.key, ttl.as_bytes()] {
            push_format(out, format_args!("${}\r\n", word.len()));
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        push_format(out, format_args!("${}\r\n", self.payload.len()));
    }

    /// Returns the part of its request that stands behind the payload.
    pub fn request_end(replaces: bool) -> &'static [u8] {
        if replaces { b"\r\n$7\r\nREPLACE\r\n" } else { b"\r\n" }
    }
}

fn push_format(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes everything");
}

impl Debug for Parcel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} values", self.values.len())
    }
}

/// What became of a parcel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Which of the values are stored there, in their order, as far as is known; none where the
    /// other server has refused the session. One that expired before it was sent is not.
    pub are_done: Vec<bool>,
    /// The first error that the other server replied with, without a line's end.
    pub refusal: Option<Box<[u8]>>,
    /// Why of the other values nothing is known.
    pub failure: Option<TransferFailure>,
}

impl Delivery {
    /// Returns that of a parcel to which nothing was replied.
    pub fn failed(failure: TransferFailure) -> Delivery {
        Delivery { failure: Some(failure), ..Delivery::default() }
    }
}

/// Where the way to another server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferFailure {
    /// There is no connection in time.
    Connecting,
    /// The server does not take what is sent, or not in time.
    Writing,
    /// It does not reply, or not in time.
    Reading,
}
