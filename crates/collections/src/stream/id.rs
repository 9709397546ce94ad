//! The identity of an entry: a time in milliseconds, and which entry of that time it is.

use base::number::parse_i64;
use base::number_text::IntegerText;

/// Longer texts are no identities.
const TEXT_BYTES_MAX: usize = 127;

/// The identity of an entry of a stream; entries are in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds since 1970, as whoever added the entry says.
    pub ms: u64,
    /// Which of the entries of that time it is.
    pub sequence: u64,
}

/// The text of a [`StreamId`].
pub struct IdText {
    bytes: [u8; IdText::BYTES_MAX],
    length: usize,
}

impl StreamId {
    /// The first of all, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, sequence: 0 };
    /// The last of all.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, sequence: u64::MAX };

    /// Returns the identity of these numbers.
    pub const fn new(ms: u64, sequence: u64) -> StreamId {
        StreamId { ms, sequence }
    }

    /// Returns whether it is that which no entry has.
    #[inline]
    pub fn is_zero(self) -> bool {
        self == StreamId::MIN
    }

    /// Returns the next one, unless it is the last.
    #[inline]
    pub fn next(self) -> Option<StreamId> {
        match self.sequence.checked_add(1) {
            Some(sequence) => Some(StreamId { sequence, ..self }),
            None => Some(StreamId::new(self.ms.checked_add(1)?, 0)),
        }
    }

    /// Returns the one before it, unless it is the first.
    #[inline]
    pub fn previous(self) -> Option<StreamId> {
        match self.sequence.checked_sub(1) {
            Some(sequence) => Some(StreamId { sequence, ..self }),
            None => Some(StreamId::new(self.ms.checked_sub(1)?, u64::MAX)),
        }
    }

    /// Returns the identity that `text` says: a time, or a time and a number. Without a number it
    /// is the one of `sequence`.
    ///
    /// Source: Redis 7.2, `streamGenericParseIDOrReply`.
    pub fn parse(text: &[u8], sequence: u64) -> Option<StreamId> {
        let text = until_zero(text)?;
        let (ms, number) = split(text);
        let sequence = match number {
            Some(number) => parse_number(number)?,
            None => sequence,
        };
        Some(StreamId { ms: parse_number(ms)?, sequence })
    }

    /// Returns the time of `text` if it asks for any number of it: `5-*`.
    pub fn parse_open(text: &[u8]) -> Option<u64> {
        let (ms, number) = split(until_zero(text)?);
        (number? == b"*").then(|| parse_number(ms))?
    }

    /// Returns its text.
    #[inline]
    pub fn to_text(self) -> IdText {
        let (ms, sequence) = (IntegerText::unsigned(self.ms), IntegerText::unsigned(self.sequence));
        let (ms, sequence) = (ms.as_bytes(), sequence.as_bytes());
        let mut bytes = [0; IdText::BYTES_MAX];
        bytes[..ms.len()].copy_from_slice(ms);
        bytes[ms.len()] = b'-';
        bytes[ms.len() + 1..][..sequence.len()].copy_from_slice(sequence);
        IdText { bytes, length: ms.len() + 1 + sequence.len() }
    }

    /// Returns its bytes, whose order is its own.
    pub fn to_bytes(self) -> [u8; 16] {
        self.number().swap_bytes().to_le_bytes()
    }

    /// Returns the identity of these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> StreamId {
        StreamId::from_number(u128::from_le_bytes(bytes).swap_bytes())
    }

    /// Returns the number that is greater for a later identity.
    pub(crate) fn number(self) -> u128 {
        u128::from(self.ms) << 64 | u128::from(self.sequence)
    }

    /// Returns the identity of which `number` is [`StreamId::number`].
    pub(crate) fn from_number(number: u128) -> StreamId {
        StreamId { ms: (number >> 64) as u64, sequence: number as u64 }
    }
}

impl IdText {
    /// Two numbers of 20 digits, and what is between them.
    pub const BYTES_MAX: usize = 41;

    /// Returns the text.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Returns what Redis sees of `text`, which ends at a zero byte there.
fn until_zero(text: &[u8]) -> Option<&[u8]> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    text.split(|&byte| byte == 0).next()
}

fn split(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// Returns the number that `text` says, in the forms that C knows: what is no plain number may
/// begin with spaces and a sign.
///
/// Source: Redis 7.2, `string2ull`.
fn parse_number(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let start = text.iter().position(|byte| !matches!(byte, b' ' | 9..=13))?;
    let (is_negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_cross_from_one_time_to_the_next() {
        let last = StreamId::new(5, u64::MAX);
        assert_eq!(last.next(), Some(StreamId::new(6, 0)));
        assert_eq!(StreamId::new(6, 0).previous(), Some(last));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
    }

    #[test]
    fn texts_are_read_as_redis_reads_them() {
        let max = u64::MAX.to_string();
        let both = format!("{max}-{max}");
        for (text, expected) in [
            ("5", Some((5, 7))),
            ("5-3", Some((5, 3))),
            ("007-1", Some((7, 1))),
            (" 5-+3", Some((5, 3))),
            ("5- -1", Some((5, u64::MAX))),
            ("5\0x-3", Some((5, 7))),
            (&both, Some((u64::MAX, u64::MAX))),
            ("18446744073709551616", None),
            ("5--3", None),
            ("-5", None),
            ("5-", None),
            ("", None),
            ("5x", None),
            ("5-*", None),
        ] {
            let expected = expected.map(|(ms, sequence)| StreamId::new(ms, sequence));
            assert_eq!(StreamId::parse(text.as_bytes(), 7), expected, "{text}");
        }
        assert_eq!(StreamId::parse(&[b'1'; 128], 0), None);
        let open = |text: &str| StreamId::parse_open(text.as_bytes());
        assert_eq!(
            [open("5-*"), open("5"), open("5-**"), open("x-*")],
            [Some(5), None, None, None]
        );
    }

    #[test]
    fn texts_and_bytes_say_the_same() {
        for id in [StreamId::MIN, StreamId::MAX, StreamId::new(1_700_000_000_000, 3)] {
            assert_eq!(StreamId::parse(id.to_text().as_bytes(), 9), Some(id));
            assert_eq!(StreamId::from_bytes(id.to_bytes()), id);
        }
    }
}
