//! One end of a lane: a connection between two processes through memory that both map.
//!
//! Two rings carry a stream of bytes each, requests to the server and replies to the client. Each
//! end belongs to one thread.

mod doorbell;
mod lane_layout;
mod lane_memory;
mod shared_lane;
mod stream;
#[cfg(test)]
mod tests;

pub use doorbell::{BY_SOCKET, NEWS, ROOM, arm, claim, disarm, sleeps_for};
pub use lane_layout::{HEADER_BYTES, LaneError, LaneShape, RING_BYTES_MAX, RING_BYTES_MIN};
pub use lane_memory::{Cell, HeapLane, LaneMemory, SwapWord};
pub use shared_lane::SharedLane;
pub use stream::{Reader, Ring, Writer};

use std::sync::atomic::Ordering;
use std::time::Duration;

use arena::atomic_word::AtomicWord;

use lane_layout::{
    CLIENT_STATE_AT, CLOSED_AT, PROCESSOR_AT, REPLY_HEAD_AT, REPLY_TAIL_AT, REQUEST_HEAD_AT,
    REQUEST_TAIL_AT, SERVER_STATE_AT, SPIN_US_AT,
};

/// Which end of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Takes requests out and puts replies in.
    Server,
    /// Puts requests in and takes replies out.
    Client,
}

/// One end of a lane.
pub struct LaneEnd<M> {
    memory: M,
    side: Side,
    writer: Writer,
    reader: Reader,
}

impl<M: LaneMemory> LaneEnd<M> {
    /// Returns `side` of a lane that has not been used.
    pub fn new(memory: M, side: Side) -> LaneEnd<M> {
        LaneEnd { memory, side, writer: Writer::default(), reader: Reader::default() }
    }

    /// Returns the memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Writes as much of `pieces` as there is room for and returns how many bytes that is. The
    /// caller then asks [`LaneEnd::claim`] whether the other side sleeps for [`NEWS`].
    ///
    /// # Errors
    /// When the other side has broken the lane.
    pub fn write(&mut self, pieces: &[impl AsRef<[u8]>]) -> Result<usize, LaneError> {
        self.writer.write(&outbound(&self.memory, self.side), pieces)
    }

    /// Takes bytes out until `target`, of 8 bytes at least, is full or nothing is there; returns
    /// how many. The caller then asks [`LaneEnd::claim`] whether the other side sleeps for
    /// [`ROOM`].
    ///
    /// # Errors
    /// When the other side has broken the lane.
    pub fn read(&mut self, target: &mut [u8]) -> Result<usize, LaneError> {
        debug_assert!(target.len() >= 8, "a frame is taken in whole words");
        self.reader.read(&inbound(&self.memory, self.side), target)
    }

    /// Takes what is there and appends it to `buffer`, `bytes_max` bytes at most, which are at
    /// least 8; returns how many bytes that is. Otherwise as [`LaneEnd::read`].
    ///
    /// # Errors
    /// When the other side has broken the lane.
    pub fn read_appending(
        &mut self,
        buffer: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<usize, LaneError> {
        let there = self.there()?;
        if there == 0 {
            return Ok(0);
        }
        let before = buffer.len();
        buffer.resize(before + bytes_max.min(there as usize).max(8), 0);
        let count = self.read(&mut buffer[before..]);
        buffer.truncate(before + *count.as_ref().unwrap_or(&0));
        count
    }

    /// Returns an upper bound of the bytes that can be taken out; 0 when there are none.
    ///
    /// # Errors
    /// When the other side has broken the lane.
    #[inline]
    pub fn there(&self) -> Result<u64, LaneError> {
        self.reader.there(&inbound(&self.memory, self.side))
    }

    /// Returns whether something can be written.
    ///
    /// # Errors
    /// When the other side has broken the lane.
    pub fn has_room(&mut self) -> Result<bool, LaneError> {
        self.writer.has_room(&outbound(&self.memory, self.side))
    }

    /// Says that this side is about to sleep for `reasons`, and returns whether it must not:
    /// something has come already, and it is awake again.
    ///
    /// # Errors
    /// When the other side has broken the lane.
    pub fn arm(&mut self, reasons: u64) -> Result<bool, LaneError> {
        arm(self.state(self.side), reasons);
        let is_ready = self.is_ready(reasons)?;
        if is_ready {
            self.disarm();
        }
        Ok(is_ready)
    }

    /// Returns whether one of `reasons` to go on is there.
    ///
    /// # Errors
    /// When the other side has broken the lane.
    #[inline]
    pub fn is_ready(&mut self, reasons: u64) -> Result<bool, LaneError> {
        Ok(reasons & NEWS != 0 && self.there()? > 0 || reasons & ROOM != 0 && self.has_room()?)
    }

    /// Says for how long the server spins for this client's next request before it sleeps: the
    /// client, which waits for a reply that comes soon, does well to spin for as long.
    pub fn set_spin_limit(&self, limit: Duration) {
        debug_assert_eq!(self.side, Side::Server, "the server says how long it spins");
        let microseconds = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        self.memory.header()[SPIN_US_AT].store(microseconds, Ordering::Relaxed);
    }

    /// Returns for how long the server spins for this client's next request; zero when it sleeps at
    /// once.
    #[inline]
    pub fn spin_limit(&self) -> Duration {
        Duration::from_micros(self.memory.header()[SPIN_US_AT].load(Ordering::Relaxed))
    }

    /// Says on which processor this client is, which is about to wake the server: one that polls
    /// for it there would keep it from running.
    pub fn set_client_processor(&self, processor: usize) {
        debug_assert_eq!(self.side, Side::Client, "the client says where it is");
        self.memory.header()[PROCESSOR_AT].store(processor as u64 + 1, Ordering::Relaxed);
    }

    /// Returns the processor on which the client says that it was when it woke the server last.
    pub fn client_processor(&self) -> Option<usize> {
        let said = self.memory.header()[PROCESSOR_AT].load(Ordering::Relaxed);
        usize::try_from(said.checked_sub(1)?).ok()
    }

    /// Says that this side is awake.
    pub fn disarm(&self) {
        disarm(self.state(self.side));
    }

    /// Returns whether this side is still asleep: nobody has woken it since it armed.
    pub fn is_armed(&self) -> bool {
        self.state(self.side).load(Ordering::Relaxed) != 0
    }

    /// Returns the reasons of the other side if it sleeps for one in `reasons`: the caller wakes
    /// it.
    #[inline]
    pub fn claim(&self, reasons: u64) -> Option<u64> {
        claim(self.state(self.peer()), reasons)
    }

    /// Returns whether the other side sleeps for one of `reasons`, and leaves it asleep: the caller
    /// has it woken later, or claims it with what it writes next.
    pub fn peer_sleeps_for(&self, reasons: u64) -> bool {
        sleeps_for(self.state(self.peer()), reasons)
    }

    /// Says that the server serves the lane no more, and returns the client's reasons if it
    /// sleeps. Bytes written before can still be read.
    pub fn close(&self) -> Option<u64> {
        assert_eq!(self.side, Side::Server, "the server ends a lane");
        // SYNC POINT: replies before the end. Pairs with the load in `is_closed`.
        self.memory.header()[CLOSED_AT].store(1, Ordering::Release);
        self.claim(NEWS | ROOM)
    }

    /// Returns whether the server serves the lane no more; what it wrote before is there.
    pub fn is_closed(&self) -> bool {
        // SYNC POINT: replies before the end. Pairs with the store in `close`.
        self.memory.header()[CLOSED_AT].load(Ordering::Acquire) != 0
    }

    /// Returns the client's state word, to wait on and to wake.
    pub fn client_state(&self) -> &M::Word {
        self.state(Side::Client)
    }

    fn peer(&self) -> Side {
        match self.side {
            Side::Server => Side::Client,
            Side::Client => Side::Server,
        }
    }

    fn state(&self, side: Side) -> &M::Word {
        let at = if side == Side::Server { SERVER_STATE_AT } else { CLIENT_STATE_AT };
        &self.memory.header()[at]
    }
}

/// Returns the ring that `side` writes.
#[inline(always)]
fn outbound<M: LaneMemory>(memory: &M, side: Side) -> Ring<'_, M::Word, M::Cell> {
    match side {
        Side::Server => replies(memory),
        Side::Client => requests(memory),
    }
}

/// Returns the ring that `side` reads.
#[inline(always)]
fn inbound<M: LaneMemory>(memory: &M, side: Side) -> Ring<'_, M::Word, M::Cell> {
    match side {
        Side::Server => requests(memory),
        Side::Client => replies(memory),
    }
}

fn requests<M: LaneMemory>(memory: &M) -> Ring<'_, M::Word, M::Cell> {
    let header = memory.header();
    let (tail, head) = (&header[REQUEST_TAIL_AT], &header[REQUEST_HEAD_AT]);
    Ring { tail, head, cells: memory.requests() }
}

fn replies<M: LaneMemory>(memory: &M) -> Ring<'_, M::Word, M::Cell> {
    let header = memory.header();
    let (tail, head) = (&header[REPLY_TAIL_AT], &header[REPLY_HEAD_AT]);
    Ring { tail, head, cells: memory.replies() }
}
