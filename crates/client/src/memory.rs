//! The mapped memory of a session, as the arena's reader takes it.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use arena::pins::{PIN_TABLE_BYTES, PinMemory};
use arena::reader::SegmentView;
use sys::memory::{ForeignSegments, SharedBlock};

/// The arena's segments, mapped read-only at their offsets in one range.
pub(crate) struct Mapped {
    base: NonNull<u8>,
    span_bytes: u64,
    segment_count: u32,
    segments: Mutex<ForeignSegments>,
    epoch: AtomicU64,
}

// SAFETY: the address is that of a mapping that `segments` owns for as long as the value lives; it
// is only read, as relaxed atomic words.
unsafe impl Send for Mapped {}
// SAFETY: as above; changes of the mapping are serialised by the lock.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Reserves a range for `segment_count` segments; none is mapped, and the epoch is 0.
    pub fn reserve(segment_bytes: u64, segment_count: u32) -> io::Result<Mapped> {
        let segments = ForeignSegments::reserve(segment_bytes, segment_count)?;
        Ok(Mapped {
            base: segments.base(),
            span_bytes: segment_bytes * u64::from(segment_count),
            segment_count,
            segments: Mutex::new(segments),
            epoch: AtomicU64::new(0),
        })
    }

    /// Returns how many segments the range has room for.
    pub fn segment_count(&self) -> usize {
        self.segment_count as usize
    }

    /// Returns the mapping, to bring it up to date; [`Mapped::set_epoch`] ends that.
    pub fn segments(&self) -> MutexGuard<'_, ForeignSegments> {
        self.segments.lock().expect("no holder of the mapping panics")
    }

    /// Says that every segment of the arena as of `epoch` is mapped.
    pub fn set_epoch(&self, epoch: u64) {
        // SYNC POINT: segments mapped before their epoch. Pairs with the load in `epoch`.
        self.epoch.store(epoch, Ordering::Release);
    }
}

// SAFETY: the range is reserved once and readable as a whole, zero where nothing is mapped
// (`ForeignSegments`); the epoch is set only after the server's whole list has been mapped.
unsafe impl SegmentView for Mapped {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    fn epoch(&self) -> u64 {
        // SYNC POINT: segments mapped before their epoch. Pairs with the store in `set_epoch`.
        self.epoch.load(Ordering::Acquire)
    }
}

/// The session's pin table.
pub(crate) struct Pins(SharedBlock);

impl Pins {
    /// Maps the table that the server sent.
    pub fn open(descriptor: OwnedFd, bytes: u64) -> io::Result<Pins> {
        if bytes != PIN_TABLE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a pin table of {bytes} bytes; {PIN_TABLE_BYTES} were expected"),
            ));
        }
        SharedBlock::open(descriptor, bytes).map(Pins)
    }
}

// SAFETY: the block is mapped for as long as the value lives, has that many bytes (checked when it
// was opened), and cannot shrink: `SharedBlock` checks its seals.
unsafe impl PinMemory for Pins {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}
