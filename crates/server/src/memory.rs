//! The arena's memory in a server: sealed memfds that other processes can map for reading, and the
//! pin tables that they write.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arena::pins::PinMemory;
use arena::{SegmentError, SegmentSource};
use sys::memory::{Backing, OwnedSegments, SharedBlock};

/// The addresses that the arena reserves: 1 TiB of references, or what an address-space limit
/// leaves, by halves down to the least.
const SPAN_BYTES_MAX: u64 = 1 << 40;
const SPAN_BYTES_MIN: u64 = 1 << 32;

/// Sealed shared memory as the arena's source of segments.
pub struct SharedSegments {
    segments: Arc<OwnedSegments>,
}

impl SharedSegments {
    /// Reserves addresses for segments of `segment_bytes`.
    ///
    /// # Errors
    /// When the address space of the process is too small.
    pub fn reserve(segment_bytes: u64, backing: Backing) -> io::Result<SharedSegments> {
        let mut span = SPAN_BYTES_MAX;
        loop {
            let count = u32::try_from(span / segment_bytes).expect("segments are 1 MiB or more");
            match OwnedSegments::reserve(segment_bytes, count, backing) {
                Ok(segments) => return Ok(SharedSegments { segments: Arc::new(segments) }),
                Err(error) if span <= SPAN_BYTES_MIN => return Err(error),
                Err(_) => span /= 2,
            }
        }
    }

    /// Returns the segments, whose descriptors other processes may have.
    pub fn segments(&self) -> Arc<OwnedSegments> {
        Arc::clone(&self.segments)
    }
}

// SAFETY: `OwnedSegments` keeps one page-aligned base for as long as it lives, maps each committed
// segment read-write and zeroed inside its own range, and gives no reference to it; other
// processes can map it for reading only, by its seals.
unsafe impl SegmentSource for SharedSegments {
    fn base(&self) -> NonNull<u8> {
        self.segments.base()
    }

    fn span_bytes(&self) -> u64 {
        self.segments.span_bytes()
    }

    fn segment_bytes(&self) -> u64 {
        self.segments.segment_bytes()
    }

    fn commit(&self, index: u32) -> Result<(), SegmentError> {
        self.segments.commit(index).map_err(|error| SegmentError(error.to_string()))
    }

    fn retire(&self, index: u32) {
        self.segments.retire(index);
    }
}

/// The pin table of a session in another process.
pub struct SharedPins {
    block: SharedBlock,
}

impl SharedPins {
    /// Returns the pin table in `block`.
    ///
    /// # Panics
    /// When the block has another size than a pin table.
    pub fn new(block: SharedBlock) -> SharedPins {
        assert_eq!(block.bytes(), arena::pins::PIN_TABLE_BYTES);
        SharedPins { block }
    }
}

// SAFETY: the block is mapped for as long as it lives, has a table's size by `new`, and its seals
// keep it from shrinking.
unsafe impl PinMemory for SharedPins {
    fn words(&self) -> &[AtomicU64] {
        self.block.words()
    }
}
