//! The layout of a value that is not plain bytes: an array, or an object pickled by protocol 5 with
//! its buffers behind it. All numbers are little-endian.
//!
//! ```text
//! byte 0   8  magic
//! byte 8   1  version, 1
//! byte 9   1  kind: 0 bytes, 1 array, 2 pickle
//! byte 10  2  zero
//! byte 12  4  where the data begin, a multiple of 64
//!
//! array                              pickle
//! byte 16  1  length of the format   byte 16  8  length of the stream, which is the data's begin
//! byte 17  1  number of dimensions   byte 24  4  number of buffers
//! byte 18  6  format, as of PEP 3118 byte 28  4  zero
//! byte 24  8  of each dimension      byte 32  16 of each buffer: where it begins, a multiple of
//!                                                64, and its length
//! ```
//!
//! Plain bytes are stored as they are, unless they begin with the magic: then as kind 0.

use std::ops::Range;

const MAGIC: [u8; 8] = *b"\x89FBY\r\n\x1a\n";
const VERSION: u8 = 1;
const BYTES: u8 = 0;
const ARRAY: u8 = 1;
const PICKLE: u8 = 2;
/// How data are aligned, counted from the begin of the value.
pub const ALIGNMENT: usize = 64;
/// What the formats that are stored take at most: a size, and two letters of a complex number.
pub const FORMAT_BYTES_MAX: usize = 6;
/// More are pickled.
pub const DIMENSIONS_MAX: usize = 32;

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Plain bytes, and where they are.
    Bytes(Range<usize>),
    /// An array in C's order.
    Array { format: String, shape: Vec<usize>, data: Range<usize> },
    /// A stream of pickle, and its buffers.
    Pickle { stream: Range<usize>, buffers: Vec<Range<usize>> },
}

impl Block {
    /// Returns what `value` is. One that begins as a block and is none is plain bytes, as any
    /// client may have put it.
    pub fn of(value: &[u8]) -> Block {
        let is_block = value.len() >= MAGIC.len() && value[..MAGIC.len()] == MAGIC;
        let block = if is_block { decoded(value) } else { None };
        block.unwrap_or(Block::Bytes(0..value.len()))
    }

    /// Returns where the first byte is that readers want aligned.
    pub fn data_start(&self) -> usize {
        match self {
            Block::Bytes(range) | Block::Array { data: range, .. } => range.start,
            Block::Pickle { stream, buffers } => buffers.first().unwrap_or(stream).start,
        }
    }
}

fn decoded(value: &[u8]) -> Option<Block> {
    let is_ours = *value.get(8)? == VERSION && value.get(10..12)? == [0, 0];
    let kind = *value.get(9)?;
    let start = u32::from_le_bytes(*value.get(12..)?.first_chunk()?) as usize;
    if !is_ours || !start.is_multiple_of(ALIGNMENT) || start > value.len() {
        return None;
    }
    match kind {
        BYTES => Some(Block::Bytes(start..value.len())),
        ARRAY => decoded_array(value, start),
        PICKLE => decoded_pickle(value, start),
        _ => None,
    }
}

fn decoded_array(value: &[u8], start: usize) -> Option<Block> {
    let (format_bytes, dimensions) = (usize::from(*value.get(16)?), usize::from(*value.get(17)?));
    let format = str::from_utf8(value.get(18..24)?.get(..format_bytes)?).ok()?;
    let item_bytes = item_bytes(format)?;
    let lengths = value.get(24..start)?.as_chunks::<8>().0.get(..dimensions)?;
    let lengths = lengths.iter().map(|length| u64::from_le_bytes(*length));
    let shape: Vec<usize> = lengths.map(usize::try_from).collect::<Result<_, _>>().ok()?;
    let bytes = shape.iter().try_fold(item_bytes, |bytes, &count| bytes.checked_mul(count))?;
    let is_whole = start.checked_add(bytes)? == value.len();
    (is_whole && dimensions <= DIMENSIONS_MAX).then(|| Block::Array {
        format: format.to_owned(),
        shape,
        data: start..value.len(),
    })
}

fn decoded_pickle(value: &[u8], start: usize) -> Option<Block> {
    let number = |at: usize| Some(u64::from_le_bytes(*value.get(at..)?.first_chunk()?) as usize);
    let range = |begin: usize, length: usize| {
        let end = begin.checked_add(length)?;
        (end <= value.len()).then_some(begin..end)
    };
    let stream = range(start, number(16)?)?;
    let count = u32::from_le_bytes(*value.get(24..)?.first_chunk()?) as usize;
    let table_end = count.checked_mul(16).and_then(|bytes| bytes.checked_add(32))?;
    if table_end > start {
        return None;
    }
    let buffers = (0..count).map(|index| {
        let at = 32 + 16 * index;
        range(number(at)?, number(at + 8)?)
    });
    Some(Block::Pickle { stream, buffers: buffers.collect::<Option<_>>()? })
}

/// Returns the size of an item of `format`, if that is one that is stored.
pub fn item_bytes(format: &str) -> Option<usize> {
    Some(match format {
        "?" | "b" | "B" => 1,
        "e" | "h" | "H" => 2,
        "f" | "i" | "I" => 4,
        "d" | "q" | "Q" | "l" | "L" | "Zf" => 8,
        "Zd" => 16,
        _ => return None,
    })
}

/// The parts of a value that is to be written, in order: each begins at its offset, and what lies
/// between two is zero.
pub struct Parts<'a> {
    parts: Vec<(usize, &'a [u8])>,
    length: usize,
}

impl<'a> Parts<'a> {
    /// Returns plain bytes; `header` is memory for what goes before them if they look like a block.
    pub fn of_bytes(bytes: &'a [u8], header: &'a mut Vec<u8>) -> Parts<'a> {
        if !bytes.starts_with(&MAGIC) {
            return Parts { parts: vec![(0, bytes)], length: bytes.len() };
        }
        begin(header, BYTES);
        finish(header);
        Parts::behind(header, [bytes])
    }

    /// Returns the array of `data` in C's order.
    pub fn of_array(
        format: &str,
        shape: &[usize],
        data: &'a [u8],
        header: &'a mut Vec<u8>,
    ) -> Parts<'a> {
        assert!(format.len() <= FORMAT_BYTES_MAX && shape.len() <= DIMENSIONS_MAX);
        begin(header, ARRAY);
        header.extend([format.len() as u8, shape.len() as u8]);
        header.extend(format.as_bytes());
        header.resize(24, 0);
        for count in shape {
            header.extend((*count as u64).to_le_bytes());
        }
        finish(header);
        Parts::behind(header, [data])
    }

    /// Returns the pickle of `stream` with its `buffers`.
    pub fn of_pickle(stream: &'a [u8], buffers: &[&'a [u8]], header: &'a mut Vec<u8>) -> Parts<'a> {
        begin(header, PICKLE);
        header.extend((stream.len() as u64).to_le_bytes());
        header.extend((buffers.len() as u32).to_le_bytes());
        header.extend([0; 4]);
        let mut end = (header.len() + 16 * buffers.len()).next_multiple_of(ALIGNMENT);
        end += stream.len();
        for buffer in buffers {
            let start = end.next_multiple_of(ALIGNMENT);
            header.extend((start as u64).to_le_bytes());
            header.extend((buffer.len() as u64).to_le_bytes());
            end = start + buffer.len();
        }
        finish(header);
        Parts::behind(header, std::iter::once(stream).chain(buffers.iter().copied()))
    }

    fn behind(header: &'a [u8], parts: impl IntoIterator<Item = &'a [u8]>) -> Parts<'a> {
        let mut all = Parts { parts: vec![(0, header)], length: header.len() };
        for part in parts {
            let start = all.length.next_multiple_of(ALIGNMENT);
            all.parts.push((start, part));
            all.length = start + part.len();
        }
        all
    }

    /// Returns the length of the value.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns the value itself where it is one part.
    pub fn as_slice(&self) -> Option<&'a [u8]> {
        match self.parts[..] {
            [(0, whole)] => Some(whole),
            _ => None,
        }
    }

    /// Returns a copy of the value.
    pub fn to_vec(&self) -> Vec<u8> {
        match self.as_slice() {
            Some(whole) => whole.to_vec(),
            None => {
                let mut value = vec![0; self.length];
                self.write(&mut value);
                value
            }
        }
    }

    /// Writes the value to `target`, which is as long as it.
    pub fn write(&self, target: &mut [u8]) {
        assert_eq!(target.len(), self.length, "the target has the length of the value");
        let mut end = 0;
        for (start, part) in &self.parts {
            target[end..*start].fill(0);
            end = start + part.len();
            sys::memory_copy::copy(&mut target[*start..end], part);
        }
    }
}

fn begin(header: &mut Vec<u8>, kind: u8) {
    header.clear();
    header.extend(MAGIC);
    header.extend([VERSION, kind, 0, 0]);
    header.extend([0; 4]);
}

/// Fills the header up to where the data begin, and notes that.
fn finish(header: &mut Vec<u8>) {
    let start = header.len().next_multiple_of(ALIGNMENT);
    header.resize(start, 0);
    let start = u32::try_from(start).expect("a header is no longer than its buffers are many");
    header[12..16].copy_from_slice(&start.to_le_bytes());
}
