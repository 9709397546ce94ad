//! Writes what values are made of: lengths, and strings in the shortest of their forms; `reader.rs`
//! draws them.

use base::number::parse_i64;

use crate::lzf::Compressor;
use crate::payload::Version;

/// Longer texts are no integers that are written as such.
const INTEGER_TEXT_BYTES_MAX: usize = 11;
/// Strings up to this are not compressed.
const PLAIN_BYTES_MAX: usize = 20;
/// What compression has to save.
const SAVED_BYTES_MIN: usize = 4;
/// The most bytes before those of a compressed string.
const COMPRESSED_HEADER_BYTES_MAX: usize = 1 + 2 * LENGTH_BYTES_MAX;
/// The most bytes of a length.
pub(crate) const LENGTH_BYTES_MAX: usize = 9;

/// Appends a value to `out`.
pub(crate) struct Writer<'o> {
    /// Whose forms are written.
    pub version: Version,
    pub out: &'o mut Vec<u8>,
    /// What stands between the kind of the value and the value: the key, in a file.
    pub key: Option<&'o [u8]>,
    /// None where nothing is compressed.
    pub compressor: Option<&'o mut Compressor>,
}

impl<'o> Writer<'o> {
    /// Returns a writer that compresses nothing, and writes no key.
    pub fn new(version: Version, out: &'o mut Vec<u8>) -> Writer<'o> {
        Writer { version, out, key: None, compressor: None }
    }

    /// Appends the kind of the value that follows, and the key.
    pub fn kind(&mut self, kind: u8) {
        self.out.push(kind);
        if let Some(key) = self.key {
            self.text(key);
        }
    }

    /// Appends a number in the form of a length.
    pub fn number(&mut self, number: u64) {
        self.length(usize::try_from(number).expect("a word is a word"));
    }

    pub fn length(&mut self, length: usize) {
        let (bytes, count) = length_bytes(length);
        self.out.extend_from_slice(&bytes[..count]);
    }

    /// Source: Redis 7.2, `rdbSaveRawString`.
    pub fn text(&mut self, bytes: &[u8]) {
        if bytes.len() <= INTEGER_TEXT_BYTES_MAX && self.integer(bytes) {
            return;
        }
        if bytes.len() > PLAIN_BYTES_MAX && self.compressed(bytes) {
            return;
        }
        self.length(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Appends `bytes` as an integer of up to 32 bits, where they are the text of one.
    fn integer(&mut self, bytes: &[u8]) -> bool {
        let Some(integer) = parse_i64(bytes) else { return false };
        let (code, width) = match integer {
            -128..=127 => (0xC0, 1),
            -32_768..=32_767 => (0xC1, 2),
            -2_147_483_648..=2_147_483_647 => (0xC2, 4),
            _ => return false,
        };
        self.out.push(code);
        self.out.extend_from_slice(&integer.to_le_bytes()[..width]);
        true
    }

    /// Appends `bytes` compressed, where that saves something.
    fn compressed(&mut self, bytes: &[u8]) -> bool {
        let Some(compressor) = self.compressor.as_mut() else { return false };
        let start = self.out.len();
        // They are compressed where they will lie, but for a few bytes: nothing has a copy.
        let behind = start + COMPRESSED_HEADER_BYTES_MAX;
        self.out.resize(behind, 0);
        if !compressor.compress(bytes, bytes.len() - SAVED_BYTES_MIN, self.out) {
            self.out.truncate(start);
            return false;
        }
        let compressed = self.out.len() - behind;
        let mut at = start + 1;
        self.out[start] = 0xC3;
        for length in [compressed, bytes.len()] {
            let (bytes, count) = length_bytes(length);
            self.out[at..at + count].copy_from_slice(&bytes[..count]);
            at += count;
        }
        self.out.copy_within(behind.., at);
        self.out.truncate(at + compressed);
        true
    }
}

/// Returns the bytes of a length, and how many they are.
fn length_bytes(length: usize) -> ([u8; LENGTH_BYTES_MAX], usize) {
    let mut bytes = [0; LENGTH_BYTES_MAX];
    let wide = (length as u64).swap_bytes().to_le_bytes();
    let (first, tail) = match length {
        0..64 => (length as u8, 0),
        64..16_384 => (0x40 | (length >> 8) as u8, 1),
        16_384..=0xFFFF_FFFF => (0x80, 4),
        _ => (0x81, 8),
    };
    bytes[0] = first;
    bytes[1..=tail].copy_from_slice(&wide[8 - tail..]);
    (bytes, tail + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Reader;

    fn written(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut compressor = Compressor::default();
        let writer = Writer::new(Version::NEWEST, &mut out);
        Writer { compressor: Some(&mut compressor), ..writer }.text(bytes);
        let mut reader = Reader::new(&out, u64::MAX);
        assert_eq!(reader.text().and_then(|text| text.expand()).as_deref(), Some(bytes));
        assert!(reader.is_at_end());
        out
    }

    #[test]
    fn strings_are_written_in_the_shortest_form() {
        for (bytes, expected) in [
            (&b""[..], &b"\x00"[..]),
            (b"ab", b"\x02ab"),
            (b"0", b"\xC0\x00"),
            (b"-129", b"\xC1\x7F\xFF"),
            (b"32768", b"\xC2\x00\x80\x00\x00"),
            (b"-2147483648", b"\xC2\x00\x00\x00\x80"),
            (b"2147483648", b"\x0A2147483648"),
            (b"007", b"\x03007"),
            (b"aaaaaaaaaaaaaaaaaaaaa", b"\xC3\x05\x15\x00a\xE0\x0B\x00"),
        ] {
            assert_eq!(written(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn lengths_at_each_width_read_back() {
        for length in [1, 63, 64, 16_383, 16_384, 70_000] {
            let bytes: Vec<u8> =
                (0..length).map(|index: u32| (index.wrapping_mul(index) >> 5) as u8).collect();
            written(&bytes);
            assert!(written(&vec![b'x'; length as usize]).len() <= length as usize / 80 + 12);
        }
        let number = |length: usize| {
            let (bytes, count) = length_bytes(length);
            Reader::new(&bytes[..count], 0).number()
        };
        for bits in 0..64 {
            assert_eq!(number(1 << bits), Some(1 << bits));
        }
    }
}
