//! The memory of a lane, word by word.
//!
//! All words have 64 bits, little-endian. Each word that is written while the lane works has 128
//! bytes to itself: two cache lines, as processors fetch them in pairs.
//!
//! ```text
//! byte     0   magic, version     written once, by the server, before the client maps it
//! byte     8   request bytes      size of the request ring
//! byte    16   reply bytes        size of the reply ring
//! byte   128   request tail       client: bytes put into the request ring so far
//! byte   256   request head       server: bytes taken out of it so far
//! byte   384   server state       what the sleeping server wants to be woken for (doorbell.rs)
//! byte   512   reply tail         server
//! byte   640   reply head         client
//! byte   768   client state       what the sleeping client wants to be woken for; a futex
//! byte   896   closed             server: 1 when it serves the lane no more
//! byte  1024   spin               server: for how many microseconds it spins for what this client
//!                                 does next before it sleeps; 0 while it does not
//! byte  1152   processor         client: on which processor it was when it woke the server last,
//!                                the number plus one; 0 where it has not said
//! byte  4096   request ring       then the reply ring
//! ```
//! The rest of the first 4096 bytes is zero.

use std::fmt;

/// Bytes before the rings.
pub const HEADER_BYTES: u64 = 4096;
/// Words before the rings.
pub const HEADER_WORDS: usize = HEADER_BYTES as usize / 8;
/// The smallest ring, in bytes.
pub const RING_BYTES_MIN: u64 = 4096;
/// The largest ring, in bytes.
pub const RING_BYTES_MAX: u64 = 16 << 20;

/// The first word: `FBLN` and the version of this layout.
pub const MAGIC: u64 = 0x4E4C_4246 | VERSION << 32;
const VERSION: u64 = 1;

pub(crate) const MAGIC_AT: usize = 0;
pub(crate) const REQUEST_BYTES_AT: usize = 1;
pub(crate) const REPLY_BYTES_AT: usize = 2;
pub(crate) const REQUEST_TAIL_AT: usize = 16;
pub(crate) const REQUEST_HEAD_AT: usize = 32;
pub(crate) const SERVER_STATE_AT: usize = 48;
pub(crate) const REPLY_TAIL_AT: usize = 64;
pub(crate) const REPLY_HEAD_AT: usize = 80;
pub(crate) const CLIENT_STATE_AT: usize = 96;
pub(crate) const CLOSED_AT: usize = 112;
pub(crate) const SPIN_US_AT: usize = 128;
pub(crate) const PROCESSOR_AT: usize = 144;

const _: () = assert!(PROCESSOR_AT < HEADER_WORDS, "the words lie before the rings");
const _: () = assert!(RING_BYTES_MAX < u32::MAX as u64, "a frame has a length of 32 bits");

/// The sizes of a lane's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneShape {
    request_bytes: u64,
    reply_bytes: u64,
}

impl LaneShape {
    /// Returns the shape with rings of these sizes, if they are powers of two within
    /// [`RING_BYTES_MIN`] and [`RING_BYTES_MAX`].
    pub fn new(request_bytes: u64, reply_bytes: u64) -> Option<LaneShape> {
        let is_size = |bytes: u64| {
            bytes.is_power_of_two() && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&bytes)
        };
        let is_shape = is_size(request_bytes) && is_size(reply_bytes);
        is_shape.then_some(LaneShape { request_bytes, reply_bytes })
    }

    /// Returns the size of the ring that carries requests, in bytes.
    pub fn request_bytes(self) -> u64 {
        self.request_bytes
    }

    /// Returns the size of the ring that carries replies, in bytes.
    pub fn reply_bytes(self) -> u64 {
        self.reply_bytes
    }

    /// Returns the size of the whole memory in bytes.
    pub fn memory_bytes(self) -> u64 {
        HEADER_BYTES + self.request_bytes + self.reply_bytes
    }
}

/// The other side has written a word that no honest side writes: the lane is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneError {
    /// A tail that is no multiple of 8, or further from the head than the ring is large.
    Tail {
        /// The tail found.
        found: u64,
        head: u64,
    },
    /// A head that is no multiple of 8, ahead of the tail, or behind where it was.
    Head {
        /// The head found.
        found: u64,
        tail: u64,
    },
    /// A frame header with an empty payload, one longer than what is there, or reserved bits.
    Frame {
        /// The header found.
        found: u64,
        /// Bytes that are there behind it.
        there: u64,
    },
}

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneError::Tail { found, head } => write!(f, "tail {found:#x} with head {head:#x}"),
            LaneError::Head { found, tail } => write!(f, "head {found:#x} with tail {tail:#x}"),
            LaneError::Frame { found, there } => {
                write!(f, "frame header {found:#x} with {there} bytes behind it")
            }
        }
    }
}

impl std::error::Error for LaneError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_powers_of_two_within_bounds() {
        assert!(LaneShape::new(RING_BYTES_MIN, RING_BYTES_MAX).is_some());
        for wrong in [0, 1, RING_BYTES_MIN / 2, RING_BYTES_MIN + 8, 3 << 12, RING_BYTES_MAX * 2] {
            assert!(LaneShape::new(wrong, 65_536).is_none(), "{wrong}");
            assert!(LaneShape::new(65_536, wrong).is_none(), "{wrong}");
        }
    }
}
