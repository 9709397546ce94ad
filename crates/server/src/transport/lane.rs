//! Lanes: two rings in memory that the client maps too.
//!
//! A worker polls them while it is awake. Before it sleeps it arms each, and the client writes to
//! an eventfd, which the poller watches.
//!
//! *Not here*: how a lane comes about and what it is counted as (`lane_lifecycle.rs`), what the
//! memory holds (`ring::lane`).

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use keyspace::ReservedBlock;
use resp::Output;
use ring::lane::{BY_SOCKET, LaneEnd, LaneError, NEWS, ROOM, SharedLane};
use sys::descriptors::SharedDescriptor;
use sys::poll::{Poller, Ready, Waker};
use sys::socket::{Peer, Stream};

use super::{Endpoint, OpenContext, Sent, Transport, TransportEnd};
use crate::connection::CloseReason;
use crate::registry::ClientOrigin;
use crate::server_state::ServerState;
use crate::statistics::WorkerCounters;

/// Pieces of one copy into a ring: values from where they lie, and what stands between them.
const PIECES_PER_COPY_MAX: usize = 32;
/// What a lane hands out at least.
const WORD_BYTES: usize = 8;

/// A lane that no worker serves yet.
pub struct PendingLane {
    /// The number of its session.
    pub id: u64,
    /// The number of the connection that it was made on, its parent.
    pub parent: u64,
    /// The process of its parent.
    pub peer: Peer,
    /// The address that CLIENT LIST shows: that of its parent.
    pub address: String,
    /// The server's end of the rings.
    pub end: LaneEnd<SharedLane>,
    /// The eventfd by which the client wakes the server, which only waits for it: a read or a write
    /// could block, as the client shares the description and its flags.
    pub wakeup: Waker,
    /// How the server wakes clients that wait for a socket.
    pub client_wakeup: Stream,
    /// Whether the pages of its memory are there.
    pub ready: io::Result<()>,
}

/// The server's end of a lane.
pub struct Lane(Box<ServerEnd>);

struct ServerEnd {
    id: u64,
    parent: u64,
    end: LaneEnd<SharedLane>,
    wakeup: Waker,
    client_wakeup: Stream,
}

impl Transport for Lane {
    type Pending = Box<PendingLane>;

    const IS_POLLED: bool = true;

    fn open(pending: Box<PendingLane>, context: &OpenContext<'_>) -> Option<(Lane, Endpoint)> {
        let PendingLane { id, parent, address, end, wakeup, client_wakeup, ready, .. } = *pending;
        let shared = context.shared;
        if let Err(error) = ready {
            // Nothing may be written into the lane to tell its client, who is told by this.
            tracing::warn!(id, %error, "Closing client for whose lane there is no memory");
            shared.give_up_lane(parent, id);
            shared.end_clients(&[parent], CloseReason::LaneEnded);
            return None;
        }
        if !shared.begin_lane(parent, id, context.worker) {
            return None;
        }
        let endpoint = Endpoint {
            id,
            parent: Some(parent),
            origin: ClientOrigin::Local,
            is_unix: true,
            local_address: address.clone(),
            address,
        };
        Some((Lane(Box::new(ServerEnd { id, parent, end, wakeup, client_wakeup })), endpoint))
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        counters: &WorkerCounters,
    ) -> Result<usize, TransportEnd> {
        let count = self.0.end.read(buffer);
        self.0.received(count, counters)
    }

    fn receive_appending(
        &mut self,
        buffer: &mut Vec<u8>,
        counters: &WorkerCounters,
    ) -> Result<usize, TransportEnd> {
        let room = buffer.capacity() - buffer.len();
        let count = self.0.end.read_appending(buffer, room);
        self.0.received(count, counters)
    }

    /// A lane hands out whole words, so that the last bytes of the value come with those behind
    /// them.
    fn receive_value(
        &mut self,
        block: &mut ReservedBlock,
        behind: &mut [u8],
        counters: &WorkerCounters,
    ) -> Result<Range<usize>, TransportEnd> {
        if block.missing_bytes() >= WORD_BYTES {
            let count = self.receive(block.room(), counters)?;
            block.advance(count);
        }
        let missing = block.missing_bytes();
        if missing >= WORD_BYTES {
            return Ok(0..0);
        }
        let count = self.receive(behind, counters)?;
        let value = count.min(missing);
        block.append(&behind[..value]);
        Ok(value..count)
    }

    /// Copies as much into the ring as there is room for, and wakes the client once if it sleeps.
    fn send(
        &mut self,
        output: &mut Output,
        descriptors: &[SharedDescriptor],
        counters: &WorkerCounters,
    ) -> Result<Sent, TransportEnd> {
        debug_assert!(descriptors.is_empty(), "a lane passes no descriptors");
        let lane = &mut *self.0;
        let bytes = lane.write(output).map_err(|error| lane.misused(error, counters))?;
        if bytes > 0 {
            lane.wake(NEWS, counters);
        }
        Ok(if output.is_empty() { Sent::All(bytes) } else { Sent::Partly(bytes) })
    }

    fn memory_bytes(&self) -> usize {
        self.0.end.memory().bytes() as usize
    }

    /// The client wakes the server for what it waits for, and does not tell which that is.
    fn interpret(&self, ready: Ready, counters: &WorkerCounters) -> Ready {
        counters.lane_rings.add(1);
        Ready { readable: true, writable: true, hangup: false, is_over: false, ..ready }
    }

    /// A broken lane has requests, so that its turn ends it.
    #[inline]
    fn has_requests(&self) -> bool {
        self.0.end.there().map_or(true, |bytes| bytes > 0)
    }

    /// A broken lane has room, so that its turn ends it.
    fn has_room(&mut self) -> bool {
        self.0.end.has_room().unwrap_or(true)
    }

    fn arm(&mut self, wants_requests: bool, wants_room: bool) -> bool {
        let reason = |is_wanted: bool, reason: u64| if is_wanted { reason } else { 0 };
        let reasons = reason(wants_requests, NEWS) | reason(wants_room, ROOM);
        // A lane that is broken is not slept on either: its turn ends it.
        reasons != 0 && self.0.end.arm(reasons).unwrap_or(true)
    }

    fn set_busy_poll_limit(&self, limit: Duration) {
        self.0.end.set_spin_limit(limit);
    }

    fn peer_processor(&self) -> Option<usize> {
        self.0.end.client_processor()
    }

    fn forget(&self, id: u64, poller: &Poller, shared: &ServerState) {
        shared.forget_lane(self.0.parent, id);
        // The client's copy of the eventfd would keep it in the set.
        let _ = poller.remove(self);
    }
}

impl AsFd for Lane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wakeup.as_fd()
    }
}

impl ServerEnd {
    /// Copies unsent replies into the ring; returns how many bytes.
    fn write(&mut self, output: &mut Output) -> Result<usize, LaneError> {
        let mut sent = 0;
        while !output.is_empty() {
            let written = match output.plain() {
                Some(bytes) => self.end.write(&[bytes])?,
                None => self.write_pieces(output)?,
            };
            if written == 0 {
                break;
            }
            output.consume(written);
            sent += written;
        }
        Ok(sent)
    }

    /// Copies replies that lie in pieces into the ring, once; returns how many bytes.
    fn write_pieces(&mut self, output: &Output) -> Result<usize, LaneError> {
        let mut pieces = [IoSlice::new(&[]); PIECES_PER_COPY_MAX];
        let count = output.pieces(&mut pieces);
        let mut slices: [&[u8]; PIECES_PER_COPY_MAX] = [&[]; PIECES_PER_COPY_MAX];
        for (slice, piece) in slices.iter_mut().zip(&pieces[..count]) {
            *slice = piece;
        }
        self.end.write(&slices[..count])
    }

    /// Wakes a client that sleeps for room where a read has made some.
    #[inline]
    fn received(
        &self,
        count: Result<usize, LaneError>,
        counters: &WorkerCounters,
    ) -> Result<usize, TransportEnd> {
        let count = count.map_err(|error| self.misused(error, counters))?;
        if count > 0 {
            self.wake(ROOM, counters);
        }
        Ok(count)
    }

    /// Tells the log that the client has written what no client writes, which ends the connection.
    #[cold]
    fn misused(&self, error: LaneError, counters: &WorkerCounters) -> TransportEnd {
        counters.lane_errors.add(1);
        tracing::warn!(id = self.id, %error, "Closing client that broke its lane");
        TransportEnd::Misused
    }

    /// Wakes the client if it sleeps for `reason`.
    fn wake(&self, reason: u64, counters: &WorkerCounters) {
        if let Some(reasons) = self.end.claim(reason) {
            counters.lane_wakes.add(1);
            self.wake_for(reasons);
        }
    }

    fn wake_for(&self, reasons: u64) {
        if reasons & BY_SOCKET == 0 {
            sys::futex::wake(self.end.client_state());
        } else {
            // Where the socket is full the client has bytes enough to wake it.
            let _ = self.client_wakeup.send(&[1]);
        }
    }
}

impl Drop for ServerEnd {
    /// Tells the client that nobody serves the lane any more.
    fn drop(&mut self) {
        if let Some(reasons) = self.end.close() {
            self.wake_for(reasons);
        }
    }
}
