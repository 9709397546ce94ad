//! The part of a host that reaches other servers: where MIGRATE sends keys.

use std::fmt::{self, Debug};
use std::time::Duration;

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

/// Requests for another server.
pub struct Parcel {
    /// Their bytes, in pieces that follow each other.
    pub pieces: Vec<Vec<u8>>,
    /// How many requests they are, each of which has one reply.
    pub count: usize,
    /// The right to the memory that they take.
    pub scratch: Option<Scratch>,
}

impl Debug for Parcel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} requests", self.count)
    }
}

/// What became of a parcel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Which of the requests that were replied to were done, in their order; none where the other
    /// server has refused the session.
    pub are_done: Vec<bool>,
    /// The first error that the other server replied with, without a line's end.
    pub refusal: Option<Box<[u8]>>,
    /// Why the other requests have no reply.
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
