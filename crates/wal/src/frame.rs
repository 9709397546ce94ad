//! The bytes of one frame. All numbers are little-endian.
//!
//! ```text
//!  0  4  magic: "FBWL"
//!  4  1  version of this format: 1
//!  5  1  flags: 1 head of a segment, 2 the log begins here from nothing, 4 closed in order
//!  6  2  0
//!  8  8  length of the payload in bytes
//! 16  8  LSN: the position in the stream before the payload
//! 24  8  term of the primary that wrote it
//! 32  8  LSN up to which the log was durable when the frame was made
//! 40  4  checksum of the frame before: the chain so far
//! 44  4  checksum: CRC32C of bytes 0 to 43 and the payload, behind the chain so far
//! 48  4  salt: random, the same in all frames of a segment, so that no client can write a frame
//! 52  4  CRC32C of bytes 0 to 51
//! 56     payload, then zeroes up to a multiple of 8
//! ```
//!
//! A frame begins at a multiple of 8 in its file. It can be checked by itself, because it names the
//! checksum that it goes on from; that this is the one of the frame before is checked in order.

use std::iter;

use crc32c::{crc32c, crc32c_append};

/// Bytes of a frame before its payload.
pub const HEADER_BYTES: usize = 56;
/// Frames begin at multiples of this.
pub const ALIGNMENT: u64 = 8;

const MAGIC: [u8; 4] = *b"FBWL";
const VERSION: u8 = 1;
/// The bytes of the header that the payload's checksum has in it.
const CHAINED_BYTES: usize = 44;
/// The bytes of the header that its own checksum has in it.
const CHECKED_BYTES: usize = 52;

/// The first frame of a segment, without payload.
pub const HEAD: u8 = 1;
/// With [`HEAD`]: nothing comes before this segment; it goes on from an empty dataset.
pub const BEGINS: u8 = 2;
/// The writer ended in order: all before it is durable. Without payload.
pub const CLOSED: u8 = 4;

/// The header of a frame, read and checked, or to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub flags: u8,
    pub payload_bytes: u64,
    /// The position before the payload.
    pub lsn: u64,
    pub term: u64,
    /// What was durable when the frame was made.
    pub durable: u64,
    /// The chain before the frame.
    pub previous: u32,
    /// The chain behind it.
    pub chain: u32,
    /// What all frames of the segment have in common.
    pub salt: u32,
}

/// Returns the bytes that a frame of a payload of `payload_bytes` takes.
pub fn frame_bytes(payload_bytes: usize) -> u64 {
    (HEADER_BYTES + payload_bytes).next_multiple_of(ALIGNMENT as usize) as u64
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// They are all zero: nothing was written here.
    Blank,
    /// They are a header of a version that is not known.
    Version(u8),
    /// They never were a header.
    Malformed,
}

impl FrameHeader {
    /// Appends the frame of this header and `payload` to `out`, with its checksums, which are
    /// worked out; returns the chain behind it.
    pub fn put(self, payload: &[u8], out: &mut Vec<u8>) -> u32 {
        let (bytes, chain) = self.of_pieces([payload].into_iter());
        out.extend_from_slice(&bytes);
        out.extend_from_slice(payload);
        out.resize(out.len().next_multiple_of(ALIGNMENT as usize), 0);
        chain
    }

    /// Returns the bytes of this header before a payload that is in `pieces`, and the chain behind
    /// the frame; lengths and checksums are worked out.
    pub fn of_pieces<'a>(
        mut self,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> ([u8; HEADER_BYTES], u32) {
        self.payload_bytes = pieces.clone().map(|piece| piece.len() as u64).sum();
        self.chain = 0;
        self.chain = chain_of_pieces(self.previous, &self.encode(), pieces);
        (self.encode(), self.chain)
    }

    /// Writes the frame of this header and a payload that is in `pieces` to `out`, which is as long
    /// as the frame; returns the chain behind it. Lengths and checksums are worked out. A part is
    /// copied before the checksum of the copy is worked out: copying reads in the order of
    /// addresses, for which a processor fetches ahead, and the checksum reads at three places in
    /// turn, 8 KiB each where there is as much.
    ///
    /// # Panics
    /// When `out` is shorter than the frame.
    pub fn put_pieces<'a>(
        mut self,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut [u8],
    ) -> u32 {
        const STEP_BYTES: usize = 24 * 1024;
        self.payload_bytes = pieces.clone().map(|piece| piece.len() as u64).sum();
        self.chain = 0;
        let (header, mut rest) = out.split_at_mut(HEADER_BYTES);
        let mut chain = chain_of_pieces(self.previous, &self.encode(), iter::empty());
        for step in pieces.flat_map(|piece| piece.chunks(STEP_BYTES)) {
            let place = rest.split_off_mut(..step.len()).expect("there is room for the frame");
            place.copy_from_slice(step);
            chain = crc32c_append(chain, place);
        }
        rest.fill(0);
        self.chain = chain;
        header.copy_from_slice(&self.encode());
        chain
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        (bytes[4], bytes[5]) = (VERSION, self.flags);
        bytes[8..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.lsn.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.term.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.durable.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.previous.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.chain.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = crc32c(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header in `bytes`, and checks all that can be checked without its payload.
    ///
    /// # Errors
    /// [`HeaderError`].
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Result<FrameHeader, HeaderError> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Err(HeaderError::Blank);
        }
        let word = |at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a word has four bytes"))
        };
        let long = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("it has eight bytes"))
        };
        if bytes[..4] != MAGIC || word(CHECKED_BYTES) != crc32c(&bytes[..CHECKED_BYTES]) {
            return Err(HeaderError::Malformed);
        }
        if bytes[4] != VERSION {
            return Err(HeaderError::Version(bytes[4]));
        }
        let header = FrameHeader {
            flags: bytes[5],
            payload_bytes: long(8),
            lsn: long(16),
            term: long(24),
            durable: long(32),
            previous: word(40),
            chain: word(44),
            salt: word(48),
        };
        let is_known = matches!(header.flags, 0 | HEAD | CLOSED) || header.flags == HEAD | BEGINS;
        let is_empty = header.payload_bytes == 0;
        let is_blank_between = bytes[6..8] == [0, 0];
        let is_in_order =
            header.durable <= header.lsn && header.lsn.checked_add(header.payload_bytes).is_some();
        if !is_known || (header.flags != 0) != is_empty || !is_blank_between || !is_in_order {
            return Err(HeaderError::Malformed);
        }
        Ok(header)
    }

    /// Returns the bytes that the whole frame takes; none where that is more than a file can have.
    pub fn frame_bytes(&self) -> Option<u64> {
        let end = self.payload_bytes.checked_add(HEADER_BYTES as u64)?;
        end.checked_next_multiple_of(ALIGNMENT)
    }

    /// Returns whether `bytes`, the header and what follows, are this frame: payload and padding.
    pub fn is_of(&self, header: &[u8], rest: &[u8]) -> bool {
        let payload_bytes = self.payload_bytes as usize;
        let (payload, padding) = rest.split_at(payload_bytes);
        padding.iter().all(|&byte| byte == 0)
            && chain_of_pieces(self.previous, header, std::iter::once(payload)) == self.chain
    }

    /// Returns the position behind the payload.
    pub fn end_lsn(&self) -> u64 {
        self.lsn + self.payload_bytes
    }
}

/// Returns the chain behind a frame with this `header` and a payload that is in `pieces`.
pub fn chain_of_pieces<'a>(
    previous: u32,
    header: &[u8],
    pieces: impl Iterator<Item = &'a [u8]>,
) -> u32 {
    pieces.fold(crc32c_append(previous, &header[..CHAINED_BYTES]), crc32c_append)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FrameHeader {
        FrameHeader {
            flags: 0,
            payload_bytes: 0,
            lsn: 100,
            term: 3,
            durable: 90,
            previous: 7,
            chain: 0,
            salt: 9,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for length in [1, 7, 8, 9, 500] {
            let (payload, mut bytes) = (vec![0xa5; length], Vec::new());
            let chain = header().put(&payload, &mut bytes);
            assert_eq!(bytes.len() % 8, 0);
            let (head, rest) = bytes.split_at(HEADER_BYTES);
            let read = FrameHeader::read(head.try_into().unwrap()).unwrap();
            assert_eq!((read.payload_bytes, read.lsn), (length as u64, 100));
            assert_eq!((read.chain, read.end_lsn()), (chain, 100 + length as u64));
            assert_eq!(read.frame_bytes(), Some(bytes.len() as u64));
            assert!(read.is_of(head, rest));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut bytes = Vec::new();
        header().put(b"0123456789", &mut bytes);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (head, rest) = bytes.split_at(HEADER_BYTES);
            let read = FrameHeader::read(head.try_into().unwrap());
            assert!(!read.is_ok_and(|header| header.is_of(head, rest)), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn zeroes_are_no_frame_and_nothing_else_is_blank() {
        assert_eq!(FrameHeader::read(&[0; HEADER_BYTES]), Err(HeaderError::Blank));
        assert_eq!(FrameHeader::read(&[1; HEADER_BYTES]), Err(HeaderError::Malformed));
    }
}
