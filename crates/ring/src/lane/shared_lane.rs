//! A lane's memory as two processes map it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use sys::descriptors::SharedDescriptor;
use sys::memfd_segments::SharedBlock;

use super::lane_layout::{
    HEADER_BYTES, HEADER_WORDS, LaneShape, MAGIC, MAGIC_AT, REPLY_BYTES_AT, REQUEST_BYTES_AT,
};
use super::lane_memory::{LaneMemory, begin};

/// A lane in memory that two processes map.
///
/// The server makes it and maps it, the client maps it and closes it: from then on nobody can
/// resize it, map it for writing once more, or take pages out of it. The server looks whether that
/// is so, and does not do it: it would have to wait for whoever writes to the descriptor.
pub struct SharedLane {
    block: SharedBlock,
    request_end: usize,
}

impl SharedLane {
    /// Makes a lane for another process to map.
    ///
    /// # Errors
    /// When the system has no memory or no descriptors left.
    pub fn create(shape: LaneShape) -> io::Result<SharedLane> {
        // The rings may be large, and zeroing them takes its time: that is for who maps or seals.
        let block = SharedBlock::create(shape.memory_bytes(), HEADER_BYTES)?;
        begin(block.words(), shape);
        Ok(SharedLane::of(block, shape))
    }

    /// Returns the size of all of it in bytes.
    pub fn bytes(&self) -> u64 {
        self.block.bytes()
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

    /// Maps the lane that another process has made, and closes it.
    ///
    /// # Errors
    /// `InvalidData` when it has another size, may shrink, or is no lane of this version.
    pub fn open(descriptor: OwnedFd, shape: LaneShape) -> io::Result<SharedLane> {
        let block = SharedBlock::open(descriptor, shape.memory_bytes())?;
        let words = block.words();
        let found = [MAGIC_AT, REQUEST_BYTES_AT, REPLY_BYTES_AT]
            .map(|at| words[at].load(Ordering::Relaxed));
        if found != [MAGIC, shape.request_bytes(), shape.reply_bytes()] {
            let text = format!("no lane of version 1: {found:x?}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(SharedLane::of(block, shape))
    }

    fn of(block: SharedBlock, shape: LaneShape) -> SharedLane {
        let request_end = HEADER_WORDS + shape.request_bytes() as usize / 8;
        assert_eq!(block.words().len() as u64 * 8, shape.memory_bytes(), "a lane's size");
        SharedLane { block, request_end }
    }
}

impl SharedLane {
    /// Returns the descriptor of the memory, for another process.
    pub fn descriptor(&self) -> SharedDescriptor {
        self.block.descriptor()
    }
}

impl LaneMemory for SharedLane {
    type Word = AtomicU64;
    type Cell = AtomicU64;

    #[inline]
    fn header(&self) -> &[AtomicU64] {
        &self.block.words()[..HEADER_WORDS]
    }

    #[inline]
    fn requests(&self) -> &[AtomicU64] {
        &self.block.words()[HEADER_WORDS..self.request_end]
    }

    #[inline]
    fn replies(&self) -> &[AtomicU64] {
        &self.block.words()[self.request_end..]
    }
}
