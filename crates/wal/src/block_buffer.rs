//! Writes frames past the system's cache: the disk takes them from a buffer of this process.
//!
//! A log is written once and read seldom, so that the cache would bring nothing for what it costs:
//! a page of memory and some work for each 4 KiB, and a second copy. The disk takes whole blocks,
//! while a frame begins where the one before has ended, in the middle of a block. The rest of the
//! last block of a frame is written as zeroes, and the whole block once more with the next frame,
//! its first bytes as they are. The cache would do the same.

use std::io;

use sys::wide_buffer::WideBuffer;

use crate::frame::{ALIGNMENT, HEADER_BYTES};
use crate::storage::{LogFile, read_full};

/// Blocks are of this: a multiple of what disks ask for.
pub const BLOCK_BYTES: usize = 4096;

/// The room for a frame and for what its first block has before it, at most: a huge page.
const BUFFER_BYTES_MAX: usize = 2 << 20;
/// The room that is made at first; for a longer frame it is the next power of two.
const BUFFER_BYTES_MIN: usize = 64 << 10;
const _: () = assert!(BUFFER_BYTES_MIN.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(BUFFER_BYTES_MAX.is_power_of_two() && BUFFER_BYTES_MIN.is_power_of_two());

/// How long the payload of a frame may be that has room, with a header and what fills it up.
pub const BUFFERED_PAYLOAD_BYTES_MAX: usize =
    BUFFER_BYTES_MAX - BLOCK_BYTES - HEADER_BYTES - ALIGNMENT as usize;

/// Blocks of a file that are to be written, and the first bytes of the next one.
#[derive(Default)]
pub struct BlockBuffer {
    memory: Option<WideBuffer>,
    /// Where the first block is in the file.
    start: u64,
    /// How many of its first bytes are there.
    kept: usize,
}

impl BlockBuffer {
    /// Returns the memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.len() as u64)
    }

    /// Returns whether there is room for a frame of `frame_bytes`.
    pub fn has_room_for(frame_bytes: u64) -> bool {
        frame_bytes <= (BUFFER_BYTES_MAX - BLOCK_BYTES) as u64
    }

    /// Has `put` fill memory of `frame_bytes`, and writes that to `file` from byte `position` on;
    /// returns what `put` returned. Whatever comes of it, the bytes before `position` are as they
    /// were.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where the file cannot be written so, or there is no memory
    /// for the buffer; else when the disk fails or is full.
    ///
    /// # Panics
    /// When there is no room for the frame.
    pub fn write<T>(
        &mut self,
        file: &dyn LogFile,
        position: u64,
        frame_bytes: usize,
        put: impl FnOnce(&mut [u8]) -> T,
    ) -> io::Result<T> {
        self.go_to(file, position)?;
        let (start, kept) = (self.start, self.kept);
        let end = kept + frame_bytes;
        let block_bytes = end.next_multiple_of(BLOCK_BYTES);
        let blocks = &mut self.memory(block_bytes)?[..block_bytes];
        let result = put(&mut blocks[kept..end]);
        blocks[end..].fill(0);
        let written = write_blocks(file, start, blocks);
        let kept = end % BLOCK_BYTES;
        blocks.copy_within(end - kept..end, 0);
        (self.start, self.kept) = (start + (end - kept) as u64, kept);
        if written.is_err() {
            self.forget();
        }
        written.map(|()| result)
    }

    /// Forgets what is there: the next bytes are of another file, or are written in another way.
    pub fn forget(&mut self) {
        (self.start, self.kept) = (0, 0);
    }

    /// Has what the block of `position` has before it.
    fn go_to(&mut self, file: &dyn LogFile, position: u64) -> io::Result<()> {
        if self.kept > 0 && self.start + self.kept as u64 == position {
            return Ok(());
        }
        let kept = (position % BLOCK_BYTES as u64) as usize;
        let start = position - kept as u64;
        self.forget();
        if read_full(file, start, &mut self.memory(kept)?[..kept])? < kept {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.start, self.kept) = (start, kept);
        Ok(())
    }

    /// Returns the memory, `bytes` of it at least, with what is kept.
    fn memory(&mut self, bytes: usize) -> io::Result<&mut [u8]> {
        if self.memory_bytes() < bytes as u64 {
            let room = bytes.next_power_of_two().max(BUFFER_BYTES_MIN);
            let mut memory = WideBuffer::new(room).map_err(|_| io::ErrorKind::Unsupported)?;
            if let Some(old) = &self.memory {
                memory[..self.kept].copy_from_slice(&old[..self.kept]);
            }
            self.memory = Some(memory);
        }
        Ok(self.memory.as_mut().map_or(&mut [], |memory| &mut memory[..]))
    }
}

/// Writes `blocks` to `file` from byte `start` on.
///
/// # Errors
/// As [`LogFile::write_blocks_at`].
pub fn write_blocks(file: &dyn LogFile, start: u64, blocks: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < blocks.len() {
        match file.write_blocks_at(start + done as u64, &blocks[done..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
