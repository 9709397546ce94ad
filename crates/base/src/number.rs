//! Integers as Redis reads them from requests and values.

/// Returns the integer that `text` is the one decimal writing of: no sign but a needed minus, no
/// leading zero, no space, nothing beyond 64 bits.
///
/// Source: Redis 7.2, `string2ll` in `util.c`.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() < 19 => {}
        _ => return None,
    }
    let mut magnitude = 0_u64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // 19 digits are below 10^19, which is below 2^64; a 20th never comes here.
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Returns the number at which C's `strtoul` with base 10 arrives when it reads all of `text`, as
/// SCAN reads its cursor: a sign is allowed, a minus wraps, no digit at all is 0 in an empty text.
pub fn parse_cursor(text: &[u8]) -> Option<u64> {
    let (negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for &byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_in_their_one_writing() {
        for value in [0, 1, -1, 9, 10, 42, -42, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }
        for text in [
            "",
            "-",
            "+1",
            "-0",
            "00",
            "01",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "0x10",
            "a",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "99999999999999999999",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn cursors_are_read_as_strtoul_does() {
        for (text, expected) in [
            ("", Some(0)),
            ("0", Some(0)),
            ("007", Some(7)),
            ("+7", Some(7)),
            ("-1", Some(u64::MAX)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-", None),
            ("+", None),
            (" 1", None),
            ("1 ", None),
            ("x", None),
        ] {
            assert_eq!(parse_cursor(text.as_bytes()), expected, "{text}");
        }
    }
}
