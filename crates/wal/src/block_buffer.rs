//! Writes frames past the system's cache: the disk takes them from memory of this process.
//!
//! A log is written once and read seldom, so that the cache would bring nothing for what it costs:
//! a page of memory and some work for each 4 KiB, and a second copy. The disk takes whole blocks,
//! while a frame begins where the one before has ended, in the middle of a block. The rest of the
//! last block of a frame is written as zeroes, and the whole block once more with the next frame,
//! its first bytes as they are. The cache would do the same.
//!
//! A piece of a frame whose checksum is known is not even read: the disk takes its blocks from
//! where they are, if they have the same places in the file. What is left is in the buffer, in the
//! order of the frame: its header, the blocks that two pieces share, and its last block.

use std::io::{self, IoSlice};
use std::ops::Range;

use base::crc32c;
use sys::wide_buffer::WideBuffer;

use crate::frame::{ALIGNMENT, FrameHeader, HEADER_BYTES, LEAD_BYTE, Piece};
use crate::storage::{BLOCK_BYTES, LogFile, read_full, write_blocks};

/// The room for a frame and for what its first block has before it, at most: a huge page.
const BUFFER_BYTES_MAX: usize = 2 << 20;
/// The room that is made at first; for a longer frame it is the next power of two.
const BUFFER_BYTES_MIN: usize = 64 << 10;
const _: () = assert!(BUFFER_BYTES_MIN.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(BUFFER_BYTES_MAX.is_power_of_two() && BUFFER_BYTES_MIN.is_power_of_two());

/// How long the payload of a frame may be that has room, with a header and what fills it up.
pub const BUFFERED_PAYLOAD_BYTES_MAX: usize =
    BUFFER_BYTES_MAX - 2 * BLOCK_BYTES - HEADER_BYTES - ALIGNMENT as usize;

/// So much is copied before the checksum of the copy is worked out: what is copied comes from
/// another processor's cache, in the order of addresses, for which this one fetches ahead.
const STEP_BYTES: usize = 24 * 1024;

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

    /// Writes the frame of `header` and `pieces` to `file` from byte `position` on; returns the
    /// chain behind it, which is worked out. Whatever comes of it, the bytes before `position` are
    /// as they were.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where the file cannot be written so, or there is no memory
    /// for the buffer; else when the disk fails or is full.
    ///
    /// # Panics
    /// When there is no room for the frame.
    pub fn write<'a>(
        &mut self,
        file: &dyn LogFile,
        position: u64,
        mut header: FrameHeader,
        pieces: impl Iterator<Item = Piece<'a>>,
    ) -> io::Result<u32> {
        self.go_to(file, position)?;
        let (start, header_at) = (self.start, self.kept);
        let end = header_at + header.file_bytes() as usize;
        let kept = end % BLOCK_BYTES;
        let payload_at = header_at + header.payload_at();
        let memory = self.memory(end.next_multiple_of(BLOCK_BYTES))?;
        memory[header_at + HEADER_BYTES..payload_at].fill(LEAD_BYTE);
        let mut blocks =
            Blocks { memory, filled: payload_at, at: payload_at, copied: 0, parts: Vec::new() };
        header.chain = header.chain_before_payload();
        for piece in pieces {
            header.chain = blocks.put(piece, header.chain);
        }
        let filled = blocks.end(end);
        let Blocks { memory, parts, .. } = blocks;
        memory[header_at..header_at + HEADER_BYTES].copy_from_slice(&header.encode());
        let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part.of(memory))).collect();
        let written = write_blocks(file, start, &mut slices);
        memory.copy_within(filled - kept..filled, 0);
        (self.start, self.kept) = (start + (end - kept) as u64, kept);
        if written.is_err() {
            self.forget();
        }
        written.map(|()| header.chain)
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

/// A frame that is put together, in parts. Places in the file are counted from its first block.
struct Blocks<'a, 'm> {
    memory: &'m mut [u8],
    /// Up to where there is something in it. That is at the same place in a block as `at`.
    filled: usize,
    /// Where the next byte belongs in the file.
    at: usize,
    /// How much of the memory is in `parts`.
    copied: usize,
    parts: Vec<Part<'a>>,
}

/// Blocks of a frame.
enum Part<'a> {
    /// In the memory.
    Copied(Range<usize>),
    /// Where they were.
    Given(&'a [u8]),
}

impl Part<'_> {
    fn of<'s>(&'s self, memory: &'s [u8]) -> &'s [u8] {
        match self {
            Part::Copied(range) => &memory[range.clone()],
            Part::Given(bytes) => bytes,
        }
    }
}

impl<'a> Blocks<'a, '_> {
    /// Adds `piece` to a frame whose checksum has come to `chain`; returns what it comes to.
    fn put(&mut self, piece: Piece<'a>, chain: u32) -> u32 {
        let bytes = piece.bytes;
        let Some(checksum) = piece.checksum else {
            let steps = bytes.chunks(STEP_BYTES);
            return steps.fold(chain, |chain, step| crc32c::append(chain, self.copy(step)));
        };
        let to_next_block = self.at.next_multiple_of(BLOCK_BYTES) - self.at;
        let (before, rest) = bytes.split_at(to_next_block.min(bytes.len()));
        let (blocks, behind) = rest.split_at(rest.len() / BLOCK_BYTES * BLOCK_BYTES);
        self.copy(before);
        match blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES) {
            true => self.give(blocks),
            false => {
                self.copy(blocks);
            }
        }
        self.copy(behind);
        crc32c::combine(chain, checksum, bytes.len())
    }

    /// Adds a copy of `bytes`, which it returns.
    fn copy(&mut self, bytes: &[u8]) -> &[u8] {
        let place = &mut self.memory[self.filled..][..bytes.len()];
        place.copy_from_slice(bytes);
        self.filled += bytes.len();
        self.at += bytes.len();
        place
    }

    /// Adds `blocks`, which the disk takes from where they are.
    fn give(&mut self, blocks: &'a [u8]) {
        if !blocks.is_empty() {
            self.note_copied();
            self.parts.push(Part::Given(blocks));
            self.at += blocks.len();
        }
    }

    /// Adds zeroes up to `end`, the end of the frame, and to that of its last block; returns where
    /// in the memory the frame ends.
    fn end(&mut self, end: usize) -> usize {
        let filled = self.filled + (end - self.at);
        let block_end = filled + (end.next_multiple_of(BLOCK_BYTES) - end);
        self.memory[self.filled..block_end].fill(0);
        self.filled = block_end;
        self.note_copied();
        filled
    }

    /// Makes what is in the memory and in no part yet one.
    fn note_copied(&mut self) {
        if self.filled > self.copied {
            self.parts.push(Part::Copied(self.copied..self.filled));
            self.copied = self.filled;
        }
    }
}

/// Returns how many bytes come before a payload of `pieces`, which would be at byte `at` of a file
/// without them, so that the disk can take the first piece from where it is that it may; 0 where
/// there is none.
pub fn lead_bytes<'a>(at: u64, pieces: impl Iterator<Item = Piece<'a>>) -> u16 {
    let mut at = (at % BLOCK_BYTES as u64) as usize;
    for piece in pieces {
        if piece.checksum.is_some() {
            return (piece.bytes.as_ptr().addr().wrapping_sub(at) % BLOCK_BYTES) as u16;
        }
        at = (at + piece.bytes.len()) % BLOCK_BYTES;
    }
    0
}
