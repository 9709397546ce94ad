//! A session's pin table: one process writes it, the other reads it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use arena::pins::{PIN_TABLE_BYTES, PinMemory};
use sys::descriptors::SharedDescriptor;
use sys::fork::Generation;
use sys::memfd_segments::SharedBlock;

/// A pin table in memory that both processes map.
///
/// A forked child of the process that opened it has another table, which nobody reads: what it lets
/// go of, its parent may still hold.
pub struct SharedPins {
    block: SharedBlock,
    generation: Generation,
    of_child: OnceLock<Box<[AtomicU64]>>,
}

impl SharedPins {
    /// Makes a table without pins, for another process to map. This process looks at none of its
    /// words before [`SharedPins::populate_pages`] has returned: until then the other one can take
    /// its pages out, and one that the system cannot bring anew would kill who looks.
    ///
    /// # Errors
    /// When the system has no memory or no descriptors left.
    pub fn create() -> io::Result<SharedPins> {
        SharedBlock::create(PIN_TABLE_BYTES, 0).map(SharedPins::of)
    }

    /// Checks that the other process has closed the memory for all but those who have mapped it.
    ///
    /// # Errors
    /// `PermissionDenied` where it has not.
    pub fn check_closed(&self) -> io::Result<()> {
        self.block.check_closed()
    }

    /// Brings all pages of the memory, which has been closed; that takes its time.
    ///
    /// # Errors
    /// When memory is short.
    pub fn populate_pages(&self) -> io::Result<()> {
        self.block.populate_pages()
    }

    /// Maps the table of `bytes` bytes that another process has made, and closes it for further
    /// writers and seals.
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
        SharedBlock::open(descriptor, bytes).map(SharedPins::of)
    }

    fn of(block: SharedBlock) -> SharedPins {
        SharedPins { block, generation: Generation::current(), of_child: OnceLock::new() }
    }

    #[cold]
    fn words_of_child(&self) -> &[AtomicU64] {
        let empty = || (0..PIN_TABLE_BYTES / 8).map(|_| AtomicU64::new(0)).collect();
        self.of_child.get_or_init(empty)
    }
}

impl SharedPins {
    /// Returns the descriptor of the memory, for another process.
    pub fn descriptor(&self) -> SharedDescriptor {
        self.block.descriptor()
    }
}

// SAFETY: the block is mapped for as long as the value lives, has a table's size (made so, or
// checked when it was opened), and cannot shrink: `SharedBlock` sets and checks its seals. That of
// a child is made in a table's size, and lives as long.
unsafe impl PinMemory for SharedPins {
    fn words(&self) -> &[AtomicU64] {
        match self.generation.is_current() {
            true => self.block.words(),
            false => self.words_of_child(),
        }
    }
}
