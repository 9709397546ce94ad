//! Reads what values are made of: lengths, and strings in any of their forms. Nothing here takes
//! memory but [`Text::expand`].
//!
//! ```text
//! 00llllll                       | a length below 64
//! 01llllll llllllll              | below 16,384, high byte first
//! 10000000 | u32, high byte first
//! 10000001 | u64, high byte first
//! 110000cc                       | no length: c says how a string is written
//!          c = 0, 1, 2           | an integer of 8, 16, 32 bits, low byte first
//!          c = 3                 | length compressed, length, bytes of LZF
//! ```

use base::number_text::IntegerText;

use crate::lzf;

/// What is left to read of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// The longest string.
    string_bytes_max: usize,
}

/// A string as it stands in the bytes.
pub(crate) enum Text<'a> {
    Plain(&'a [u8]),
    Integer(IntegerText),
    Compressed { bytes: &'a [u8], length: usize },
}

enum Length {
    Of(u64),
    Encoded(u8),
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], string_bytes_max: u64) -> Reader<'a> {
        let string_bytes_max = usize::try_from(string_bytes_max).unwrap_or(usize::MAX);
        Reader { bytes, string_bytes_max }
    }

    pub fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads how many strings, or pairs of them, come: as many as there are bytes at most, and one
    /// at least, as no value is empty.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (1..=self.bytes.len()).contains(&count).then_some(count)
    }

    /// Reads a length that stands for a number. Redis takes the code of a string for one too.
    pub fn number(&mut self) -> Option<u64> {
        Some(match self.length()? {
            Length::Of(length) => length,
            Length::Encoded(code) => u64::from(code),
        })
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    pub fn text(&mut self) -> Option<Text<'a>> {
        let integer = |integer: i64| Some(Text::Integer(IntegerText::new(integer)));
        match self.length()? {
            Length::Of(length) => {
                let length = usize::try_from(length).ok()?;
                let bytes = self.bytes(length).filter(|bytes| bytes.len() <= self.string_bytes_max);
                bytes.map(Text::Plain)
            }
            Length::Encoded(0) => integer(i64::from(i8::from_le_bytes(self.take()?))),
            Length::Encoded(1) => integer(i64::from(i16::from_le_bytes(self.take()?))),
            Length::Encoded(2) => integer(i64::from(i32::from_le_bytes(self.take()?))),
            Length::Encoded(3) => {
                let compressed = usize::try_from(self.number()?).ok()?;
                let length = usize::try_from(self.number()?).ok()?;
                let bytes = self.bytes(compressed)?;
                let is_possible =
                    length <= self.string_bytes_max && lzf::may_be(bytes.len(), length);
                is_possible.then_some(Text::Compressed { bytes, length })
            }
            Length::Encoded(_) => None,
        }
    }

    /// Reads an integer in eight bytes, low byte first.
    pub fn word(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    /// Reads a double in eight bytes.
    pub fn double(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes)
    }

    /// Reads a double that is written as text behind its length, or as a mark.
    ///
    /// Source: Redis 7.2, `rdbLoadDoubleValue`.
    pub fn double_in_text(&mut self) -> Option<f64> {
        match self.byte()? {
            255 => Some(f64::NEG_INFINITY),
            254 => Some(f64::INFINITY),
            253 => Some(f64::NAN),
            length => std::str::from_utf8(self.bytes(usize::from(length))?).ok()?.parse().ok(),
        }
    }

    fn length(&mut self) -> Option<Length> {
        let first = self.byte()?;
        Some(match (first >> 6, first) {
            (0, _) => Length::Of(u64::from(first)),
            (1, _) => Length::Of(u64::from(first & 0x3F) << 8 | u64::from(self.byte()?)),
            (2, 0x80) => Length::Of(u64::from(u32::from_le_bytes(self.take()?).swap_bytes())),
            (2, 0x81) => Length::Of(u64::from_le_bytes(self.take()?).swap_bytes()),
            (2, _) => return None,
            _ => Length::Encoded(first & 0x3F),
        })
    }

    fn take<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }
}

impl<'a> Text<'a> {
    pub fn len(&self) -> usize {
        match self {
            Text::Plain(bytes) => bytes.len(),
            Text::Integer(text) => text.as_bytes().len(),
            Text::Compressed { length, .. } => *length,
        }
    }

    /// Calls `read` with the bytes, which are expanded into `buffer` where they have to be; `None`
    /// where they cannot be.
    pub fn with_bytes<R>(&self, buffer: &mut Vec<u8>, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match self {
            Text::Plain(bytes) => Some(read(bytes)),
            Text::Integer(text) => Some(read(text.as_bytes())),
            Text::Compressed { bytes, length } => {
                buffer.clear();
                // Not a byte more than was asked for, however the buffer has grown before.
                buffer.reserve_exact(*length);
                lzf::decompress(bytes, *length, buffer).then(|| read(buffer))
            }
        }
    }

    /// Returns a copy of the bytes; `None` where they cannot be expanded.
    pub fn expand(&self) -> Option<Vec<u8>> {
        match self {
            Text::Plain(bytes) => Some(bytes.to_vec()),
            Text::Integer(text) => Some(text.as_bytes().to_vec()),
            Text::Compressed { bytes, length } => {
                let mut expanded = Vec::with_capacity(*length);
                lzf::decompress(bytes, *length, &mut expanded).then_some(expanded)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut reader = Reader::new(bytes, 100);
        let text = reader.text()?;
        let expanded = text.expand()?;
        assert_eq!(expanded.len(), text.len());
        let same = text.with_bytes(&mut Vec::new(), |bytes| bytes == expanded);
        assert_eq!(same, Some(true));
        reader.is_at_end().then_some(expanded)
    }

    #[test]
    fn strings_are_read_in_each_of_their_forms() {
        for (bytes, expected) in [
            (&b"\x02ab"[..], &b"ab"[..]),
            (b"\x40\x02ab", b"ab"),
            (b"\x80\0\0\0\x02ab", b"ab"),
            (b"\x81\0\0\0\0\0\0\0\x02ab", b"ab"),
            (b"\xC0\xFF", b"-1"),
            (b"\xC1\x00\x80", b"-32768"),
            (b"\xC2\xFF\xFF\xFF\x7F", b"2147483647"),
            (b"\xC3\x05\x0A\x00a\xE0\x00\x00", b"aaaaaaaaaa"),
        ] {
            assert_eq!(read(bytes).as_deref(), Some(expected), "{bytes:x?}");
            for length in 0..bytes.len() {
                assert_eq!(read(&bytes[..length]), None, "{length} of {bytes:x?}");
            }
        }
    }

    #[test]
    fn lengths_that_nothing_justifies_are_refused() {
        for bytes in [
            &b"\x82ab"[..],
            b"\xC4ab",
            b"\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
            // Beyond the longest string, and beyond what so few bytes may stand for.
            &[&b"\x40\x65"[..], &[b'x'; 101]].concat(),
            b"\xC3\x01\x40\x5A\x00",
            b"\xC3\x05\x40\x65\x00a\xE0\x00\x00",
            b"\xC3\x05\x09\x00a\xE0\x00\x00",
        ] {
            assert_eq!(read(bytes), None, "{bytes:x?}");
        }
    }

    #[test]
    fn doubles_are_read_as_text_and_marks() {
        let double = |bytes| Reader::new(bytes, 0).double_in_text();
        assert_eq!(double(b"\x041e-3"), Some(0.001));
        assert_eq!([double(b"\xFE"), double(b"\xFF")], [f64::INFINITY, -f64::INFINITY].map(Some));
        assert!(double(b"\xFD").is_some_and(f64::is_nan));
        assert_eq!([double(b"\x03x.1"), double(b"\x031"), double(b"")], [None; 3]);
    }
}
