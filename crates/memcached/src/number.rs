//! Numbers as memcached reads them: by `strtol` and its kin, which skip space and take a sign.
//!
//! Source: memcached 1.6.18, `util.c`.

/// Returns the number that `text` is, a time or a length, as `safe_strtol` reads it: one of 64
/// bits, of which the lower 32 count. libmemcached writes -1 as 4294967295.
pub fn parse_i32(text: &[u8]) -> Option<i32> {
    let (magnitude, is_negative) = digits(text)?;
    let magnitude = magnitude?;
    let signed = if is_negative {
        0i64.checked_sub_unsigned(magnitude)?
    } else {
        i64::try_from(magnitude).ok()?
    };
    Some(signed as i32)
}

/// Returns the flags that `text` are, as `safe_strtoul` reads them: what is above 32 bits is cut.
pub fn parse_flags(text: &[u8]) -> Option<u32> {
    parse_delta(text).map(|flags| flags as u32)
}

/// Returns the number that `text` is, as `safe_strtoull` reads it: below zero it wraps around, and
/// is refused only where it is large after that.
pub fn parse_delta(text: &[u8]) -> Option<u64> {
    let (magnitude, is_negative) = digits(text)?;
    let magnitude = magnitude?;
    if !is_negative {
        return Some(magnitude);
    }
    let wrapped = magnitude.wrapping_neg();
    ((wrapped as i64) >= 0).then_some(wrapped)
}

/// Returns the digits of `text`, none where they are more than 64 bits, and whether a minus is
/// before them. `None` where there are none, or something else than space follows.
#[inline]
fn digits(text: &[u8]) -> Option<(Option<u64>, bool)> {
    match plain_digits(text) {
        Some(number) => Some((Some(number), false)),
        None => signed_digits(text),
    }
}

/// Returns the number that `text` is where it is nothing but digits, too few to overflow.
#[inline]
fn plain_digits(text: &[u8]) -> Option<u64> {
    const COUNT_MAX: usize = 19;
    const { assert!(u64::MAX.ilog10() as usize == COUNT_MAX) };
    if text.is_empty() || text.len() > COUNT_MAX {
        return None;
    }
    let mut number = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

#[inline(never)]
fn signed_digits(text: &[u8]) -> Option<(Option<u64>, bool)> {
    let start = text.iter().position(|byte| !is_space(*byte))?;
    let (is_negative, rest) = match &text[start..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || rest.get(count).is_some_and(|byte| *byte != 0 && !is_space(*byte)) {
        return None;
    }
    let add = |sum: u64, byte: &u8| sum.checked_mul(10)?.checked_add(u64::from(byte - b'0'));
    Some((rest[..count].iter().try_fold(0, add), is_negative))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0B | 0x0C | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_strtol_does() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("+7", Some(7)),
            (" 7 x", Some(7)),
            ("2147483647", Some(i32::MAX)),
            ("2147483648", Some(i32::MIN)),
            ("4294967295", Some(-1)),
            ("9223372036854775807", Some(-1)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(0)),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("7x", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(parse_i32(text.as_bytes()), expected, "{text}");
        }
        for (text, expected) in [
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-1", None),
            ("-18446744073709551615", Some(1)),
            ("-0", Some(0)),
            ("12 ", Some(12)),
            ("9999999999999999999", Some(9_999_999_999_999_999_999)),
            ("10000000000000000000", Some(10_000_000_000_000_000_000)),
            ("1.5", None),
        ] {
            assert_eq!(parse_delta(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(parse_flags(b"4294967297"), Some(1));
    }
}
