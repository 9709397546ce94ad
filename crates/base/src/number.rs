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

/// Returns the number that `text` is, where it is nothing but a few digits, with a point among them
/// and a minus before them if any: most scores are written so. Other texts may be numbers too.
#[inline]
pub fn parse_short_decimal(text: &[u8]) -> Option<f64> {
    const EXACT_MAX: u64 = 1 << 53;
    const POWERS: [f64; DIGITS_MAX + 1] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19,
    ];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (number, behind) = short_decimal_digits(digits)?;
    if number > EXACT_MAX {
        return None;
    }
    // Both are exact, so that the quotient is what is nearest to the decimal.
    let magnitude = number as f64 / POWERS[behind];
    Some(if is_negative { -magnitude } else { magnitude })
}

/// The most digits of which every number is below 2^64.
const DIGITS_MAX: usize = 19;

/// Returns the number that the digits of `text` are, and how many of them are behind the point;
/// `None` where there is none, there are more than fit, or there is anything else.
#[inline]
pub(crate) fn short_decimal_digits(text: &[u8]) -> Option<(u64, usize)> {
    let (mut number, mut point) = (0_u64, None);
    if text.len() > DIGITS_MAX {
        return None;
    }
    for (index, &byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => number = number * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(index),
            _ => return None,
        }
    }
    if text.len() == usize::from(point.is_some()) {
        return None;
    }
    Some((number, point.map_or(0, |point| text.len() - point - 1)))
}

/// Returns the integer that `value` is, where it is one of at most half of an `i64`: it is written
/// without a fraction then.
///
/// Source: Redis 7.2, `double2ll`.
#[inline]
pub fn whole(value: f64) -> Option<i64> {
    const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;
    (value.abs() <= WHOLE_MAX && value.trunc() == value).then_some(value as i64)
}

/// Returns the number that `text` is to C's `strtod` when it reads all of it: decimal, hexadecimal
/// or infinite; nothing before it, nothing beyond what a double holds, no NaN.
///
/// Source: Redis 7.2, `getDoubleFromObject`.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    if let Some(number) = parse_short_decimal(text) {
        return Some(number);
    }
    if text.first().is_none_or(|&byte| is_c_space(byte)) {
        return None;
    }
    let value = strtod(text)?;
    let is_named = text.iter().any(|byte| matches!(byte, b'n' | b'N'));
    let digits = text.split(|byte| matches!(byte, b'e' | b'E' | b'p' | b'P')).next()?;
    let is_zero =
        digits.iter().all(|byte| !matches!(byte, b'1'..=b'9' | b'a'..=b'f' | b'A'..=b'F'));
    let is_out_of_range = value.is_infinite() && !is_named || value == 0.0 && !is_zero;
    (!is_out_of_range).then_some(value)
}

/// As [`parse_f64`], but with what `strtod` allows beyond: space before the number, too large and
/// too small numbers, and nothing at all, which is 0; a NUL ends the text. Bounds of ranges of
/// scores are read so.
pub fn parse_f64_loosely(text: &[u8]) -> Option<f64> {
    if let Some(number) = parse_short_decimal(text) {
        return Some(number);
    }
    let text = text.split(|&byte| byte == 0).next().unwrap_or(text);
    let start = text.iter().position(|&byte| !is_c_space(byte)).unwrap_or(0);
    if text.is_empty() { Some(0.0) } else { strtod(&text[start..]) }
}

fn is_c_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn strtod(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let magnitude = match digits {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits)?,
        [b'0'..=b'9' | b'.' | b'i' | b'I', ..] => {
            std::str::from_utf8(digits).ok()?.parse::<f64>().ok()?
        }
        _ => return None,
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Reads hexadecimal digits, with a point and a power of two where they are there.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let mark = text.iter().position(|byte| matches!(byte, b'p' | b'P'));
    let (digits, mut power) = match mark {
        Some(at) => {
            let exponent = std::str::from_utf8(&text[at + 1..]).ok()?;
            (&text[..at], exponent.parse::<i32>().ok()?.clamp(-20_000, 20_000))
        }
        None => (text, 0),
    };
    // The first sixteen digits that count, and one bit for all that follow.
    let (mut mantissa, mut count, mut behind_point) = (0_u64, 0, false);
    for &byte in digits {
        if byte == b'.' && !behind_point {
            behind_point = true;
            continue;
        }
        let digit = u64::from(char::from(byte).to_digit(16)?);
        count += 1;
        power -= if behind_point { 4 } else { 0 };
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | digit;
        } else {
            mantissa |= u64::from(digit != 0);
            power += 4;
        }
    }
    // Two steps, as one alone may be beyond what a double holds.
    let half = power / 2;
    (count > 0).then(|| mantissa as f64 * 2_f64.powi(half) * 2_f64.powi(power - half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_decimals_are_what_std_reads() {
        let mut prng = crate::prng::Prng::new(7);
        let mut read = 0;
        for _ in 0..200_000 {
            let letters = b"0123456789.-0123456789";
            let length = 1 + prng.below(22) as usize;
            let few = 10 + prng.below(12);
            let text: Vec<u8> = (0..length).map(|_| letters[prng.below(few) as usize]).collect();
            if let Some(number) = parse_short_decimal(&text) {
                let text = std::str::from_utf8(&text).unwrap();
                assert_eq!(Ok(number.to_bits()), text.parse().map(f64::to_bits), "{text}");
                read += 1;
            }
        }
        assert!(read > 20_000, "{read}");
        for text in ["", "-", ".", "-.", "1.2.3", "+1", "1e5", " 1", "1 ", "12345678901234567890"] {
            assert_eq!(parse_short_decimal(text.as_bytes()), None, "{text}");
        }
    }

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
    fn doubles_are_read_as_strtod_does() {
        for (text, expected) in [
            ("0", Some(0.0)),
            ("-0", Some(0.0)),
            ("1.5", Some(1.5)),
            ("+1.5", Some(1.5)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("1e3", Some(1000.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0x10", Some(16.0)),
            ("0x.8p1", Some(1.0)),
            ("0xfffffffffffffffff", Some(295147905179352830000.0)),
            ("0e999", Some(0.0)),
            ("1e999", None),
            ("1e-999", None),
            ("0x1p99999", None),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1x", None),
            ("e5", None),
            (".", None),
            ("0x", None),
            ("--1", None),
            ("infinit", None),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), expected, "{text}");
        }
        for (text, expected) in [
            ("", Some(0.0)),
            (" 1", Some(1.0)),
            ("1e999", Some(f64::INFINITY)),
            ("2\0x", Some(2.0)),
            ("1 ", None),
        ] {
            assert_eq!(parse_f64_loosely(text.as_bytes()), expected, "{text}");
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
