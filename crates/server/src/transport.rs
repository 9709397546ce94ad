//! What carries a connection's bytes: one trait, and one file for each that there is.
//!
//! Workers and connections ask what a transport can do and not which it is. To add one is to write
//! its file and its line in the list below. Which one a connection has is one discriminant
//! (`transport/any.rs`): there is no call through a table of functions on the way of a request.
//!
//! *Not here*: how listeners are opened and exchanged (`listen.rs`) and who is let in
//! (`accept.rs`); what lanes there are (`lane_lifecycle.rs`).

#[macro_use]
mod any;
mod socket;

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use keyspace::ReservedBlock;
use resp::Output;
use sys::descriptors::SharedDescriptor;
use sys::poll::{Poller, Ready};
use sys::socket::Stream;

use crate::config::Settings;
use crate::listen::Listens;
use crate::registry::ClientOrigin;
use crate::server_state::ServerState;
use crate::statistics::WorkerCounters;

transports! {
    mod tcp: Tcp;
    mod unix: Unix;
    mod lane: Lane;
    mod memcached: Memcached;
    #[cfg(test)] mod memory: Memory;
}

/// What carries the bytes of one connection. Its descriptor is what a poller watches for it.
pub trait Transport: AsFd + Sized {
    /// A connection by it that no worker serves yet.
    type Pending: Send;

    /// How its connections are listened for; none where they come about by other means.
    const LISTENS: Option<Listens> = None;
    /// The worker polls it while awake, and arms it before it sleeps; the poller's events tell only
    /// what has come to one that was armed. Otherwise they tell all, once for each change.
    const IS_POLLED: bool = false;
    /// A long value is received into its place without a copy, so that little of it is to come
    /// with the head of its request.
    const RECEIVES_HEAD_FIRST: bool = false;
    /// Its peers speak the text protocol of memcached.
    const SPEAKS_MEMCACHED: bool = false;

    /// Begins to be served, and says who is at the other end. None where the connection is over:
    /// then it has been counted out of the registry.
    fn open(pending: Self::Pending, context: &OpenContext<'_>) -> Option<(Self, Endpoint)>;

    /// Receives into `buffer`, which is not empty, once; returns how many bytes, 0 where none are
    /// there. Fewer than fill it are all that are there, unless the transport is polled.
    ///
    /// # Errors
    /// When nothing will come any more.
    fn receive(
        &mut self,
        buffer: &mut [u8],
        counters: &WorkerCounters,
    ) -> Result<usize, TransportEnd>;

    /// As [`Transport::receive`], behind what `buffer` holds and into the room that it has.
    ///
    /// # Errors
    /// When nothing will come any more.
    fn receive_appending(
        &mut self,
        buffer: &mut Vec<u8>,
        counters: &WorkerCounters,
    ) -> Result<usize, TransportEnd>;

    /// Receives more of a value into its `block`, which lacks some, and what is there beyond that
    /// into `behind`; returns where in `behind` that is.
    ///
    /// # Errors
    /// When nothing will come any more.
    fn receive_value(
        &mut self,
        block: &mut ReservedBlock,
        behind: &mut [u8],
        counters: &WorkerCounters,
    ) -> Result<Range<usize>, TransportEnd> {
        let count = self.receive(block.room(), counters)?;
        block.advance(count);
        let is_complete = block.missing_bytes() == 0;
        let behind = if is_complete { self.receive(behind, counters)? } else { 0 };
        Ok(0..behind)
    }

    /// Sends what it takes of `output` now and consumes that. `descriptors`, where there are any,
    /// leave with the first byte; there are some only where [`Transport::descriptor_stream`] is.
    ///
    /// # Errors
    /// When nothing can be sent any more.
    fn send(
        &mut self,
        output: &mut Output,
        descriptors: &[SharedDescriptor],
        counters: &WorkerCounters,
    ) -> Result<Sent, TransportEnd>;

    /// Returns the stream by which descriptors can be passed to the peer, if they can.
    fn descriptor_stream(&self) -> Option<&Arc<Stream>> {
        None
    }

    /// Returns the memory that it takes beside its own size and the kernel's, in bytes.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Returns what an event of the poller says of the connection.
    fn interpret(&self, ready: Ready, _counters: &WorkerCounters) -> Ready {
        ready
    }

    /// Returns whether a receive would bring something. For one that is polled, as is what follows.
    fn has_requests(&self) -> bool {
        false
    }

    /// Returns whether a send would take something.
    fn has_room(&mut self) -> bool {
        false
    }

    /// Says that the worker polls no more, and has the peer cause an event for what is wanted;
    /// returns whether that is there already.
    fn arm(&mut self, _wants_requests: bool, _wants_room: bool) -> bool {
        false
    }

    /// Tells the peer for how long the worker polls for what it does next; zero for not at all.
    fn set_busy_poll_limit(&self, _limit: Duration) {}

    /// Returns the processor on which the peer says that it was when it woke the worker last.
    fn peer_processor(&self) -> Option<usize> {
        None
    }

    /// Ends what is left of it elsewhere once the session `id` that it carried has ended.
    fn forget(&self, _id: u64, _poller: &Poller, _shared: &ServerState) {}
}

/// What a transport may ask for as it begins to be served.
pub struct OpenContext<'w> {
    /// The index of the worker that serves it.
    pub worker: usize,
    /// The configuration of this round.
    pub settings: &'w Settings,
    /// What all workers share.
    pub shared: &'w ServerState,
}

/// Who is at the other end of a connection.
pub struct Endpoint {
    /// The number of its session.
    pub id: u64,
    /// The session of the connection that it was made on, and with which it ends.
    pub parent: Option<u64>,
    /// What may be known of the peer.
    pub origin: ClientOrigin,
    /// CLIENT LIST shows it as that of a unix socket.
    pub is_unix: bool,
    /// The peer's address, as CLIENT LIST shows it.
    pub address: String,
    /// The server's.
    pub local_address: String,
}

/// What one send achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All that was offered at once, so many bytes, was taken: there may be room for more.
    All(usize),
    /// So many bytes, maybe none, were taken, and there is no room for more now.
    Partly(usize),
}

/// Why a transport carries nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportEnd {
    /// The peer has closed it.
    Closed,
    /// The network broke it.
    Broken,
    /// The peer has done what the transport does not allow, which it has told the log.
    Misused,
}
