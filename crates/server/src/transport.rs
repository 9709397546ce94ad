//! What carries a connection's bytes: a socket, or a lane through shared memory.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use resp::Output;
use ring::lane::{BY_SOCKET, LaneEnd, LaneError, NEWS, ROOM, SharedLane};
use sys::poll::Waker;
use sys::socket::Stream;

use crate::lanes::LaneSeat;
use crate::statistics::WorkerCounters;

/// Pieces of one copy into a ring: values from where they lie, and what stands between them.
const PIECES_PER_COPY_MAX: usize = 32;

/// How the bytes of a connection pass.
pub enum Transport {
    /// A TCP or unix socket.
    Socket(Arc<Stream>),
    /// Memory that the client maps too.
    Lane(Box<LaneTransport>),
}

impl Transport {
    /// Returns the lane, if it is one.
    #[inline]
    pub fn lane(&mut self) -> Option<&mut LaneTransport> {
        match self {
            Transport::Socket(_) => None,
            Transport::Lane(lane) => Some(lane),
        }
    }

    /// Returns the memory that it takes beside the kernel's, in bytes: the rings of a lane.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Transport::Socket(_) => 0,
            Transport::Lane(lane) => lane.end.memory().bytes() as usize,
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Transport::Socket(stream) => stream.as_fd(),
            Transport::Lane(lane) => lane.doorbell.as_fd(),
        }
    }
}

/// The server's end of a lane.
pub struct LaneTransport {
    /// The number of the connection that it was made on.
    parent: u64,
    end: LaneEnd<SharedLane>,
    doorbell: Waker,
    bell: Stream,
}

impl LaneTransport {
    /// Returns the transport of `seat`.
    pub fn new(seat: LaneSeat) -> LaneTransport {
        let LaneSeat { parent, end, doorbell, bell, .. } = seat;
        LaneTransport { parent, end, doorbell, bell }
    }

    /// Returns the number of the connection that it was made on.
    pub fn parent(&self) -> u64 {
        self.parent
    }

    /// Takes requests out of the ring into `buffer`; returns how many bytes.
    ///
    /// # Errors
    /// When the client has broken the lane.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        counters: &WorkerCounters,
    ) -> Result<usize, LaneError> {
        let count = self.end.read(buffer)?;
        self.note_taken(count, counters);
        Ok(count)
    }

    /// Takes requests out of the ring and appends them to `buffer`, as far as it has room; returns
    /// how many bytes.
    ///
    /// # Errors
    /// When the client has broken the lane.
    pub fn receive_appending(
        &mut self,
        buffer: &mut Vec<u8>,
        counters: &WorkerCounters,
    ) -> Result<usize, LaneError> {
        let room = buffer.capacity() - buffer.len();
        let count = self.end.read_appending(buffer, room)?;
        self.note_taken(count, counters);
        Ok(count)
    }

    /// Copies unsent replies into the ring, as much as there is room for, and wakes the client once
    /// if it sleeps; returns how many bytes.
    ///
    /// # Errors
    /// When the client has broken the lane.
    pub fn send(
        &mut self,
        output: &mut Output,
        counters: &WorkerCounters,
    ) -> Result<usize, LaneError> {
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
        if sent > 0 {
            self.wake(NEWS, counters);
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

    /// Says that the worker is about to sleep, and returns whether it must not: there are requests,
    /// or room for the replies that wait for it.
    pub fn arm(&mut self, wants_requests: bool, wants_room: bool) -> bool {
        let reason = |is_wanted: bool, reason: u64| if is_wanted { reason } else { 0 };
        let reasons = reason(wants_requests, NEWS) | reason(wants_room, ROOM);
        // A lane that is broken is not slept on either: its turn ends it.
        reasons != 0 && self.end.arm(reasons).unwrap_or(true)
    }

    /// Tells the client for how long the worker looks for what it does next.
    pub fn set_look_limit(&self, limit: Duration) {
        self.end.set_look_limit(limit);
    }

    /// Returns whether there are requests; a broken lane has some, so that its turn ends it.
    #[inline]
    pub fn has_requests(&self) -> bool {
        self.end.there().map_or(true, |bytes| bytes > 0)
    }

    /// Returns whether replies can be written; a broken lane has room, so that its turn ends it.
    pub fn has_room(&mut self) -> bool {
        self.end.has_room().unwrap_or(true)
    }

    #[inline]
    fn note_taken(&self, count: usize, counters: &WorkerCounters) {
        if count > 0 {
            self.wake(ROOM, counters);
        }
    }

    /// Wakes the client if it sleeps for `reason`.
    fn wake(&self, reason: u64, counters: &WorkerCounters) {
        if let Some(reasons) = self.end.claim(reason) {
            counters.lane_wakes.add(1);
            self.ring(reasons);
        }
    }

    fn ring(&self, reasons: u64) {
        if reasons & BY_SOCKET == 0 {
            sys::futex::wake(self.end.client_state());
        } else {
            // Where the socket is full the client has bytes enough to wake it.
            let _ = self.bell.send(&[1]);
        }
    }
}

impl Drop for LaneTransport {
    /// Tells the client that nobody serves the lane any more.
    fn drop(&mut self) {
        if let Some(reasons) = self.end.close() {
            self.ring(reasons);
        }
    }
}
