//! The bytes of one frame. All numbers are little-endian.
//!
//! ```text
//!  0  4  magic: "FBWL"
//!  4  1  version of this format: 2 where something comes before the payload, else 1
//!  5  1  flags: 1 head of a segment, 2 the log begins here from nothing, 4 closed in order
//!  6  2  how many bytes come before the payload: less than 4096
//!  8  8  length of the payload in bytes
//! 16  8  LSN: the position in the stream before the payload
//! 24  8  term of the primary that wrote it
//! 32  8  LSN up to which the log was durable when the frame was made
//! 40  4  checksum of the frame before: the chain so far
//! 44  4  checksum: CRC32C of bytes 0 to 43 and the payload, behind the chain so far
//! 48  4  salt: random, the same in all frames of a segment, so that no client can write a frame
//! 52  4  CRC32C of bytes 0 to 51
//! 56     bytes of ones as said above, payload, then zeroes up to a multiple of 8
//! ```
//!
//! Something comes before a payload that the disk takes from where it lies: it takes whole blocks,
//! so that each byte has to have the same place in a block of the file as in a page of memory. It
//! is no zeroes, as a sector of zeroes is taken for one that was not written.
//!
//! A frame begins at a multiple of 8 in its file. It can be checked by itself, because it names the
//! checksum that it goes on from; that this is the one of the frame before is checked in order.

use base::crc32c;

use crate::storage::BLOCK_BYTES;

/// Bytes of a frame before its payload.
pub const HEADER_BYTES: usize = 56;
/// Frames begin at multiples of this.
pub const ALIGNMENT: u64 = 8;

const MAGIC: [u8; 4] = *b"FBWL";
/// The version of a frame whose payload follows its header.
const VERSION: u8 = 1;
/// That of one with something between them.
const VERSION_WITH_LEAD: u8 = 2;
/// What comes before a payload.
pub const LEAD_BYTE: u8 = 0xff;
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
    /// How many bytes come before the payload.
    pub lead_bytes: u16,
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

/// Returns the bytes that a frame of a payload of `payload_bytes` takes that follows its header.
#[cfg(test)]
pub fn frame_bytes(payload_bytes: usize) -> u64 {
    (HEADER_BYTES + payload_bytes).next_multiple_of(ALIGNMENT as usize) as u64
}

/// A part of a payload.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Their CRC32C, if it is known. The bytes are not looked at then, and the disk takes them from
    /// where they are, where that can be.
    pub checksum: Option<u32>,
}

impl<'a> From<&'a [u8]> for Piece<'a> {
    fn from(bytes: &'a [u8]) -> Piece<'a> {
        Piece { bytes, checksum: None }
    }
}

impl Piece<'_> {
    /// Returns the chain behind it, which has come to `before`.
    fn chain(self, before: u32) -> u32 {
        match self.checksum {
            Some(checksum) => crc32c::combine(before, checksum, self.bytes.len()),
            None => crc32c::append(before, self.bytes),
        }
    }
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
    pub fn put(mut self, payload: &[u8], out: &mut Vec<u8>) -> u32 {
        self.payload_bytes = payload.len() as u64;
        self.chain = self.chain_of([Piece::from(payload)].into_iter());
        out.extend_from_slice(&self.encode());
        out.resize(out.len() + usize::from(self.lead_bytes), LEAD_BYTE);
        out.extend_from_slice(payload);
        out.resize(out.len().next_multiple_of(ALIGNMENT as usize), 0);
        self.chain
    }

    /// Returns the chain behind the frame of this header and a payload that is in `pieces`.
    pub fn chain_of<'a>(&self, pieces: impl Iterator<Item = Piece<'a>>) -> u32 {
        pieces.fold(self.chain_before_payload(), |chain, piece| piece.chain(chain))
    }

    /// Returns the chain behind the header, to which the payload is added.
    pub fn chain_before_payload(&self) -> u32 {
        crc32c::append(self.previous, &self.encode()[..CHAINED_BYTES])
    }

    /// Returns the bytes of the header, with its own checksum.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        let version = if self.lead_bytes > 0 { VERSION_WITH_LEAD } else { VERSION };
        (bytes[4], bytes[5]) = (version, self.flags);
        bytes[6..8].copy_from_slice(&self.lead_bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.lsn.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.term.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.durable.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.previous.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.chain.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = crc32c::of(&bytes[..CHECKED_BYTES]);
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
        if bytes[..4] != MAGIC || word(CHECKED_BYTES) != crc32c::of(&bytes[..CHECKED_BYTES]) {
            return Err(HeaderError::Malformed);
        }
        if !matches!(bytes[4], VERSION | VERSION_WITH_LEAD) {
            return Err(HeaderError::Version(bytes[4]));
        }
        let header = FrameHeader {
            flags: bytes[5],
            lead_bytes: u16::from_le_bytes([bytes[6], bytes[7]]),
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
        let has_lead = header.lead_bytes > 0;
        let is_of_version = has_lead == (bytes[4] == VERSION_WITH_LEAD);
        let may_have_lead = !is_empty && usize::from(header.lead_bytes) < BLOCK_BYTES;
        let is_in_order =
            header.durable <= header.lsn && header.lsn.checked_add(header.payload_bytes).is_some();
        if !is_known
            || (header.flags != 0) != is_empty
            || !is_of_version
            || (has_lead && !may_have_lead)
            || !is_in_order
        {
            return Err(HeaderError::Malformed);
        }
        Ok(header)
    }

    /// Returns the bytes that the whole frame takes; none where that is more than a file can have.
    pub fn frame_bytes(&self) -> Option<u64> {
        let end = self.payload_bytes.checked_add(self.payload_at() as u64)?;
        end.checked_next_multiple_of(ALIGNMENT)
    }

    /// Returns the bytes that the whole frame takes, of a payload that is in memory.
    pub fn file_bytes(&self) -> u64 {
        self.frame_bytes().expect("a file can have what is in memory")
    }

    /// Returns where the payload is in the frame.
    pub fn payload_at(&self) -> usize {
        HEADER_BYTES + usize::from(self.lead_bytes)
    }

    /// Returns whether `header` and `rest`, which follows it, are this frame: its payload, and what
    /// is before and behind that.
    pub fn is_of(&self, header: &[u8], rest: &[u8]) -> bool {
        let (lead, rest) = rest.split_at(usize::from(self.lead_bytes));
        let (payload, padding) = rest.split_at(self.payload_bytes as usize);
        lead.iter().all(|&byte| byte == LEAD_BYTE)
            && padding.iter().all(|&byte| byte == 0)
            && crc32c::append(crc32c::append(self.previous, &header[..CHAINED_BYTES]), payload)
                == self.chain
    }

    /// Returns the position behind the payload.
    pub fn end_lsn(&self) -> u64 {
        self.lsn + self.payload_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FrameHeader {
        FrameHeader {
            flags: 0,
            lead_bytes: 0,
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
        for (length, lead_bytes) in [(1, 0), (7, 4095), (8, 1), (9, 256), (500, 8)] {
            let (payload, mut bytes) = (vec![0xa5; length], Vec::new());
            let chain = FrameHeader { lead_bytes, ..header() }.put(&payload, &mut bytes);
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
        FrameHeader { lead_bytes: 20, ..header() }.put(b"0123456789", &mut bytes);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (head, rest) = bytes.split_at(HEADER_BYTES);
            let read = FrameHeader::read(head.try_into().unwrap());
            assert!(!read.is_ok_and(|header| header.is_of(head, rest)), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn what_comes_before_a_payload_is_less_than_a_block_and_before_none_nothing() {
        let read = |lead_bytes: u16, payload: &[u8]| {
            let mut bytes = Vec::new();
            FrameHeader { lead_bytes, ..header() }.put(payload, &mut bytes);
            FrameHeader::read(bytes.first_chunk().unwrap()).map(|header| header.lead_bytes)
        };
        assert_eq!(read(4095, b"x"), Ok(4095));
        assert_eq!(read(4096, b"x"), Err(HeaderError::Malformed));
        let mut bytes = Vec::new();
        let head = FrameHeader { flags: HEAD, lead_bytes: 1, ..header() };
        head.put(b"", &mut bytes);
        assert_eq!(FrameHeader::read(bytes.first_chunk().unwrap()), Err(HeaderError::Malformed));
    }

    /// A program from before there was anything before a payload reads all others.
    #[test]
    fn a_frame_has_the_second_version_where_something_comes_before_its_payload() {
        let version = |lead_bytes: u16, version: Option<u8>| {
            let mut bytes = FrameHeader { lead_bytes, payload_bytes: 7, ..header() }.encode();
            bytes[4] = version.unwrap_or(bytes[4]);
            let checksum = crc32c::of(&bytes[..CHECKED_BYTES]);
            bytes[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
            FrameHeader::read(&bytes).map(|_| bytes[4])
        };
        assert_eq!(version(0, None), Ok(1));
        assert_eq!(version(9, None), Ok(2));
        assert_eq!(version(9, Some(1)), Err(HeaderError::Malformed));
        assert_eq!(version(0, Some(2)), Err(HeaderError::Malformed));
        assert_eq!(version(0, Some(0)), Err(HeaderError::Version(0)));
        assert_eq!(version(0, Some(3)), Err(HeaderError::Version(3)));
    }

    #[test]
    fn zeroes_are_no_frame_and_nothing_else_is_blank() {
        assert_eq!(FrameHeader::read(&[0; HEADER_BYTES]), Err(HeaderError::Blank));
        assert_eq!(FrameHeader::read(&[1; HEADER_BYTES]), Err(HeaderError::Malformed));
    }
}
