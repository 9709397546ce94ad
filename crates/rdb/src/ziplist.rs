//! Ziplists, the compact form before listpacks: read only.
//!
//! ```text
//! total u32 | offset of the last entry u32 | count u16 (65535: count them) | entry ... | 0xFF
//! entry: bytes of the entry before, u8 below 254, or 254 and u32 | encoding | content
//! encoding: 00llllll, 01llllll llllllll, 10...... and u32 | a string, lengths high byte first
//!           C0, D0, E0, F0, FE | an integer of 16, 32, 64, 24, 8 bits, low byte first
//!           F1 to FD           | an integer from 0 to 12
//! ```
//!
//! Source: Redis 7.2, `ziplist.c`, `ziplistValidateIntegrity`.

use base::number_text::IntegerText;

const HEADER_BYTES: usize = 10;
const END: u8 = 0xFF;
/// The length of the entry before is in four more bytes.
const LONG: u8 = 254;
const COUNT_UNKNOWN: u16 = u16::MAX;

enum Content<'a> {
    Text(&'a [u8]),
    Integer(i64),
}

/// Returns whether `bytes` are a ziplist: every length is looked at.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    checked(bytes).is_some()
}

fn checked(bytes: &[u8]) -> Option<()> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let (total, tail) = (word(0)?, word(4)?);
    let header = bytes.get(..HEADER_BYTES)?;
    let expected = u16::from_le_bytes([header[8], header[9]]);
    if total != bytes.len() || bytes.len() <= HEADER_BYTES || bytes.last() != Some(&END) {
        return None;
    }
    let end = bytes.len() - 1;
    let (mut at, mut before, mut last) = (HEADER_BYTES, 0, None);
    let mut count = 0;
    while at < end {
        let (before_said, _, length) = entry(&bytes[at..end])?;
        if before_said != before {
            return None;
        }
        (last, before, count) = (Some(at), length, count + 1);
        at += length;
    }
    let is_counted = expected == COUNT_UNKNOWN || usize::from(expected) == count;
    (is_counted && last.is_none_or(|last| last == tail)).then_some(())
}

/// Visits the texts of the elements of `bytes`, which are a ziplist.
pub(crate) fn for_each(bytes: &[u8], mut visit: impl FnMut(&[u8])) {
    let mut rest = &bytes[HEADER_BYTES..bytes.len() - 1];
    while !rest.is_empty() {
        let (_, content, length) = entry(rest).expect("it is whole");
        match content {
            Content::Text(text) => visit(text),
            Content::Integer(integer) => visit(IntegerText::new(integer).as_bytes()),
        }
        rest = &rest[length..];
    }
}

/// Returns what the entry at the start of `bytes` says of the length of the one before, what it
/// holds, and its length; `None` where it is not whole.
fn entry(bytes: &[u8]) -> Option<(usize, Content<'_>, usize)> {
    let (before, rest) = match *bytes.first()? {
        LONG => {
            let (long, rest) = bytes[1..].split_first_chunk()?;
            (u32::from_le_bytes(*long) as usize, rest)
        }
        END => return None,
        short => (usize::from(short), &bytes[1..]),
    };
    let (&encoding, rest) = rest.split_first()?;
    let (content, rest) = match encoding {
        0..=0x3F => {
            let (found, rest) = rest.split_at_checked(usize::from(encoding))?;
            (Content::Text(found), rest)
        }
        0x40..=0x7F => {
            let (&low, rest) = rest.split_first()?;
            let length = usize::from(encoding & 0x3F) << 8 | usize::from(low);
            let (found, rest) = rest.split_at_checked(length)?;
            (Content::Text(found), rest)
        }
        0x80..=0xBF => {
            let (length, rest) = rest.split_first_chunk()?;
            let length = u32::from_le_bytes(*length).swap_bytes() as usize;
            let (found, rest) = rest.split_at_checked(length)?;
            (Content::Text(found), rest)
        }
        0xC0 => integer(rest, 2)?,
        0xD0 => integer(rest, 4)?,
        0xE0 => integer(rest, 8)?,
        0xF0 => integer(rest, 3)?,
        0xFE => integer(rest, 1)?,
        0xF1..=0xFD => (Content::Integer(i64::from(encoding & 0x0F) - 1), rest),
        _ => return None,
    };
    Some((before, content, bytes.len() - rest.len()))
}

/// Returns the integer of `width` bytes at the start of `bytes`, and what is behind it.
fn integer(bytes: &[u8], width: usize) -> Option<(Content<'_>, &[u8])> {
    let (found, rest) = bytes.split_at_checked(width)?;
    let mut word = [0; 8];
    word[..width].copy_from_slice(found);
    let unused = u64::BITS - 8 * width as u32;
    Some((Content::Integer((i64::from_le_bytes(word) << unused) >> unused), rest))
}
