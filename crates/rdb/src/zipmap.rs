//! Zipmaps, the compact form of hashes before Redis 2.6: read only.
//!
//! ```text
//! count u8 (254: count them) | pair ... | 0xFF
//! pair: length | field | length | unused bytes u8 | value | unused bytes
//! length: u8 below 254, or 254 and u32, low byte first
//! ```
//!
//! Source: Redis 7.2, `zipmap.c`, `zipmapValidateIntegrity`.

const END: u8 = 0xFF;
const LONG: u8 = 254;

/// Returns whether `bytes` are a zipmap: every length is looked at.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    checked(bytes).is_some()
}

fn checked(bytes: &[u8]) -> Option<()> {
    let (&expected, rest) = bytes.split_first()?;
    let (&END, mut rest) = rest.split_last()? else { return None };
    let mut count = 0;
    while !rest.is_empty() {
        let (_, _, behind) = pair(rest)?;
        (count, rest) = (count + 1, behind);
    }
    let is_counted = expected >= LONG || usize::from(expected) == count;
    is_counted.then_some(())
}

/// Visits the fields of `bytes`, which are a zipmap, each with its value behind it.
pub(crate) fn for_each(bytes: &[u8], mut visit: impl FnMut(&[u8])) {
    let mut rest = &bytes[1..bytes.len() - 1];
    while !rest.is_empty() {
        let (field, value, behind) = pair(rest).expect("it is whole");
        visit(field);
        visit(value);
        rest = behind;
    }
}

/// Returns the field and the value at the start of `bytes`, and what is behind them; `None` where
/// they are not whole.
fn pair(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (length, rest) = length(bytes)?;
    let (field, rest) = rest.split_at_checked(length)?;
    let (length, rest) = self::length(rest)?;
    let (&unused, rest) = rest.split_first()?;
    let (value, rest) = rest.split_at_checked(length)?;
    let (_, rest) = rest.split_at_checked(usize::from(unused))?;
    Some((field, value, rest))
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes.split_first()? {
        (&LONG, rest) => {
            let (long, rest) = rest.split_first_chunk()?;
            Some((u32::from_le_bytes(*long) as usize, rest))
        }
        (&END, _) => None,
        (&short, rest) => Some((usize::from(short), rest)),
    }
}
