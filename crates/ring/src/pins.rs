//! A session's pin table: one process writes it, the other reads it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use arena::pins::{PIN_TABLE_BYTES, PinMemory};
use sys::memory::SharedBlock;

/// A pin table in memory that both processes map.
pub struct SharedPins(SharedBlock);

impl SharedPins {
    /// Makes a table without pins, for another process to map.
    ///
    /// # Errors
    /// When the system has no memory or no descriptors left.
    pub fn create() -> io::Result<SharedPins> {
        SharedBlock::create(PIN_TABLE_BYTES).map(SharedPins)
    }

    /// Maps the table of `bytes` bytes that another process has made.
    ///
    /// # Errors
    /// When it has another size, or may shrink.
    pub fn open(descriptor: OwnedFd, bytes: u64) -> io::Result<SharedPins> {
        if bytes != PIN_TABLE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a pin table of {bytes} bytes; {PIN_TABLE_BYTES} were expected"),
            ));
        }
        SharedBlock::open(descriptor, bytes).map(SharedPins)
    }
}

impl AsFd for SharedPins {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

// SAFETY: the block is mapped for as long as the value lives, has a table's size (made so, or
// checked when it was opened), and cannot shrink: `SharedBlock` sets and checks its seals.
unsafe impl PinMemory for SharedPins {
    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}
