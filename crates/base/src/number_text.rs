//! Numbers as Redis writes them: on the wire, and into values.

use std::fmt::Write;

use crate::number::{parse_i64, whole};

/// Bytes that the text of a double never exceeds.
pub const DOUBLE_TEXT_BYTES_MAX: usize = 32;

/// Bytes that the text of an integer never exceeds.
pub const INTEGER_TEXT_BYTES_MAX: usize = 20;

const DIGIT_PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// The decimal text of an integer, on the stack.
pub struct IntegerText {
    bytes: [u8; INTEGER_TEXT_BYTES_MAX],
    start: u8,
}

impl IntegerText {
    /// Returns the text of `value`.
    #[inline]
    pub fn new(value: i64) -> IntegerText {
        let mut text = IntegerText::unsigned(value.unsigned_abs());
        if value < 0 {
            text.start -= 1;
            text.bytes[usize::from(text.start)] = b'-';
        }
        text
    }

    /// Returns the text of `value`.
    #[inline]
    pub fn unsigned(mut value: u64) -> IntegerText {
        let mut bytes = [0; INTEGER_TEXT_BYTES_MAX];
        let mut start = INTEGER_TEXT_BYTES_MAX;
        while value >= 100 {
            let pair = (value % 100) as usize * 2;
            value /= 100;
            start -= 2;
            bytes[start..start + 2].copy_from_slice(&DIGIT_PAIRS[pair..pair + 2]);
        }
        if value >= 10 {
            let pair = value as usize * 2;
            start -= 2;
            bytes[start..start + 2].copy_from_slice(&DIGIT_PAIRS[pair..pair + 2]);
        } else {
            start -= 1;
            bytes[start] = b'0' + value as u8;
        }
        IntegerText { bytes, start: start as u8 }
    }

    /// Returns the digits, with a `-` before them when negative.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
}

/// The text of a double as Redis 7.2 writes it (`d2string`), on the stack.
///
/// Whole numbers up to 2^62 have no fraction; others have the fewest digits that read back as the
/// same number, in plain notation where that is short (`fpconv_dtoa`'s rules).
pub struct DoubleText {
    text: Text<DOUBLE_TEXT_BYTES_MAX>,
}

impl DoubleText {
    /// Returns the text of `value`.
    pub fn new(value: f64) -> DoubleText {
        let mut text = Text::default();
        if value.is_nan() {
            text.push(b"nan");
        } else if value.is_infinite() {
            text.push(if value < 0.0 { b"-inf" } else { b"inf" });
        } else if value == 0.0 {
            text.push(if value.is_sign_negative() { b"-0" } else { b"0" });
        } else if let Some(whole) = whole(value) {
            text.push(IntegerText::new(whole).as_bytes());
        } else if !write_short_decimal(value, &mut text) {
            shortest(value, &mut text);
        }
        DoubleText { text }
    }

    /// Returns the text.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// The text of a number with four digits behind the point, as C's `printf` writes it for `%.4f`, on
/// the stack.
pub struct FourDigitText {
    text: Text<DOUBLE_TEXT_BYTES_MAX>,
}

impl FourDigitText {
    /// Returns the text of `value`.
    ///
    /// # Panics
    /// When `value` is negative, or 10^15 or more.
    pub fn new(value: f64) -> FourDigitText {
        assert!((0.0..1e15).contains(&value), "the text fits");
        const ONE: u64 = 10_000;
        /// Below it, a product is wrong by much less than the distance from a half that is asked.
        const EXACT_ENOUGH: f64 = (1_u64 << 42) as f64;
        let mut text = Text::default();
        let scaled = value * ONE as f64;
        if scaled < EXACT_ENOUGH && (scaled.fract() - 0.5).abs() > 0.001 {
            let rounded = (scaled + 0.5) as u64;
            text.push(IntegerText::unsigned(rounded / ONE).as_bytes());
            text.push(b".");
            // A one in front keeps the zeroes behind the point.
            text.push(&IntegerText::unsigned(ONE + rounded % ONE).as_bytes()[1..]);
        } else {
            write!(text, "{value:.4}").expect("it has 20 bytes at most");
        }
        FourDigitText { text }
    }

    /// Returns the text.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// The text of a number with up to 17 digits behind the point, exactly rounded, and no zero at
/// their end, on the stack.
///
/// Source: Redis 7.2, `ld2string` in its human mode, of a double.
pub struct CoordinateText {
    text: Text<DOUBLE_TEXT_BYTES_MAX>,
}

impl CoordinateText {
    /// Returns the text of `value`.
    ///
    /// # Panics
    /// When the magnitude of `value` is 1,024 or more.
    pub fn new(value: f64) -> CoordinateText {
        assert!(value.abs() < 1024.0, "the text fits");
        const DIGITS: usize = 17;
        const ONE: u64 = 10_u64.pow(DIGITS as u32);
        const MANTISSA_BITS: u32 = 52;
        let bits = value.abs().to_bits();
        let fraction = bits & ((1 << MANTISSA_BITS) - 1);
        // The number is mantissa / 2^shift; one that is as small as those without a leading bit is
        // zero in so many digits.
        let exponent = (bits >> MANTISSA_BITS) as u32;
        let (mantissa, shift) = (fraction | 1 << MANTISSA_BITS, 1075 - exponent);
        let (whole, scaled) = if shift >= u128::BITS {
            (0, 0)
        } else {
            let whole = u128::from(mantissa) >> shift;
            let rest = u128::from(mantissa) - (whole << shift);
            (whole as u64, round_shifted(rest * u128::from(ONE), shift))
        };
        let (whole, scaled) = (whole + scaled / ONE, scaled % ONE);
        let mut text = Text::default();
        if value < 0.0 && (whole, scaled) != (0, 0) {
            text.push(b"-");
        }
        text.push(IntegerText::unsigned(whole).as_bytes());
        if scaled > 0 {
            text.push(b".");
            let digits = IntegerText::unsigned(ONE + scaled);
            let digits = &digits.as_bytes()[1..];
            let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
            text.push(&digits[..end]);
        }
        CoordinateText { text }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.text.as_bytes()).expect("digits are text")
    }
}

/// Returns `number / 2^shift`, rounded to nearest, ties to even; `shift` is 1 to 127.
fn round_shifted(number: u128, shift: u32) -> u64 {
    let (kept, half) = ((number >> shift) as u64, 1_u128 << (shift - 1));
    let rest = number & (half | (half - 1));
    kept + u64::from(rest > half || rest == half && kept & 1 == 1)
}

/// Returns `value` as C's `printf` writes it for `%.17g`.
pub fn double_in_17_digits(value: f64) -> String {
    const WHOLE_MAX: f64 = 1e17;
    // A whole number of so many digits has no others.
    let is_whole = value.abs() < WHOLE_MAX && value.trunc() == value;
    if !value.is_finite() || is_whole {
        let text = DoubleText::new(value);
        return String::from_utf8_lossy(text.as_bytes()).into_owned();
    }
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation has an e");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..17).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (16 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// Writes `value`, which is finite and no whole number, where a decimal of few digits reads back as
/// it, as that of most scores does; returns whether one does.
///
/// Decimals of up to 15 digits are different doubles each. So the first that is found is the one
/// with the fewest digits, and `fpconv` writes it in plain notation.
fn write_short_decimal(value: f64, text: &mut Text<DOUBLE_TEXT_BYTES_MAX>) -> bool {
    const POWERS: [u64; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
    /// Below it, six digits behind the point leave no more than 15.
    const MAGNITUDE_MAX: f64 = 1e9;
    let magnitude = value.abs();
    if magnitude >= MAGNITUDE_MAX {
        return false;
    }
    let found = POWERS.iter().enumerate().find_map(|(index, &power)| {
        let scaled = (magnitude * power as f64 + 0.5) as u64;
        (scaled as f64 / power as f64 == magnitude).then_some((scaled, power, index + 1))
    });
    let Some((scaled, power, digits)) = found else { return false };
    if value < 0.0 {
        text.push(b"-");
    }
    text.push(IntegerText::unsigned(scaled / power).as_bytes());
    text.push(b".");
    // A one in front keeps the zeroes behind the point.
    text.push(&IntegerText::unsigned(power + scaled % power).as_bytes()[1..=digits]);
    true
}

/// Writes the fewest digits of a finite, non-zero `value` in the notation of `fpconv`.
fn shortest(value: f64, text: &mut Text<DOUBLE_TEXT_BYTES_MAX>) {
    let mut scientific = Text::<DOUBLE_TEXT_BYTES_MAX>::default();
    write!(scientific, "{:e}", value.abs()).expect("the shortest form of a double fits");
    let (mantissa, exponent) = scientific.split_at_e();
    let mut digits = Text::<DOUBLE_TEXT_BYTES_MAX>::default();
    mantissa.iter().filter(|&&byte| byte != b'.').for_each(|&byte| digits.push(&[byte]));
    let digits = digits.as_bytes();
    // The value is `digits` x 10^scale, its first digit stands for 10^exponent.
    let scale = exponent - (digits.len() as i32 - 1);
    let magnitude = exponent.unsigned_abs() as usize;

    if value < 0.0 {
        text.push(b"-");
    }
    if scale >= 0 && magnitude < digits.len() + 7 {
        text.push(digits);
        (0..scale).for_each(|_| text.push(b"0"));
    } else if scale < 0 && (scale > -7 || magnitude < 4) {
        let whole_count = digits.len() as i32 + scale;
        if whole_count <= 0 {
            text.push(b"0.");
            (whole_count..0).for_each(|_| text.push(b"0"));
            text.push(digits);
        } else {
            let (whole, fraction) = digits.split_at(whole_count as usize);
            text.push(whole);
            text.push(b".");
            text.push(fraction);
        }
    } else {
        text.push(&digits[..1]);
        if digits.len() > 1 {
            text.push(b".");
            text.push(&digits[1..]);
        }
        text.push(if exponent < 0 { b"e-" } else { b"e+" });
        text.push(IntegerText::unsigned(magnitude as u64).as_bytes());
    }
}

/// A short text on the stack.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text { bytes: [0; N], length: 0 }
    }
}

impl<const N: usize> Text<N> {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Returns what is before the `e` of a scientific notation and the number after it.
    fn split_at_e(&self) -> (&[u8], i32) {
        let bytes = self.as_bytes();
        let at = bytes.iter().position(|&byte| byte == b'e').expect("scientific notation has an e");
        let exponent = parse_i64(&bytes[at + 1..]).expect("an exponent is a number");
        (&bytes[..at], exponent as i32)
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.length + text.len() > N {
            return Err(std::fmt::Error);
        }
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    #[test]
    fn integers_are_written_as_std_writes_them() {
        let mut prng = Prng::new(1);
        let edges = [0, 1, 9, 10, 99, 100, 101, -1, -10, i64::MAX, i64::MIN];
        let random = (0..10_000).map(|_| (prng.next() as i64) >> prng.below(64));
        for value in edges.into_iter().chain(random) {
            assert_eq!(IntegerText::new(value).as_bytes(), value.to_string().as_bytes());
        }
        assert_eq!(IntegerText::unsigned(u64::MAX).as_bytes(), b"18446744073709551615");
    }

    fn check(value: f64, expected: &str) {
        let text = DoubleText::new(value);
        assert_eq!(text.as_bytes().escape_ascii().to_string(), expected, "value {value:e}");
    }

    #[test]
    fn doubles_follow_fpconv() {
        check(0.0, "0");
        check(-0.0, "-0");
        check(f64::NAN, "nan");
        check(f64::INFINITY, "inf");
        check(f64::NEG_INFINITY, "-inf");
        check(3.0, "3");
        check(-17.0, "-17");
        check(0.1, "0.1");
        check(-1.5, "-1.5");
        check(123.456, "123.456");
        check(0.000001, "0.000001");
        check(0.0000001, "1e-7");
        check(0.0001234, "1.234e-4");
        check(0.0012345678, "0.0012345678");
        check(1e100, "1e+100");
        check(1.5e300, "1.5e+300");
        check(5e-324, "5e-324");
        check(f64::MAX, "1.7976931348623157e+308");
        check(f64::MIN, "-1.7976931348623157e+308");
        check(4611686018427387904.0, "4611686018427387904");
        check(9223372036854775808.0, "9223372036854776000");
        check(1e20, "1e+20");
        check(12345678901234567890123.0, "12345678901234568000000");
    }

    #[test]
    fn short_decimals_are_written_as_their_fewest_digits() {
        let mut prng = Prng::new(3);
        let mut found = 0;
        for _ in 0..100_000 {
            let bound = 10_u64.pow(prng.below(16) as u32);
            let whole = prng.below(bound) as f64;
            let value = whole / 10_f64.powi(prng.below(12) as i32);
            let value = if prng.one_in(2) { -value } else { value };
            if value.trunc() == value {
                continue;
            }
            let [mut short, mut long] = [Text::default(), Text::default()];
            shortest(value, &mut long);
            if write_short_decimal(value, &mut short) {
                assert_eq!(short.as_bytes().escape_ascii().to_string(), long_text(&long));
                found += 1;
            }
        }
        assert!(found > 20_000, "{found}");
    }

    fn long_text(text: &Text<DOUBLE_TEXT_BYTES_MAX>) -> String {
        text.as_bytes().escape_ascii().to_string()
    }

    #[test]
    fn four_digits_are_exactly_rounded() {
        let mut prng = Prng::new(4);
        let edges = [0.0, 0.00005, 0.00015, 0.12345, 1.00005, 2.5, 9999.99995, 999999999999999.9];
        let random = (0..200_000).map(|_| {
            // Halves of the last digit are the ones that are hard to round.
            let bound = 10_u64.pow(prng.below(15) as u32 + 1);
            let steps = prng.below(bound) as f64;
            if prng.one_in(2) { (steps + 0.5) / 10_000.0 } else { steps / 7.0 }
        });
        for value in edges.into_iter().chain(random) {
            let text = FourDigitText::new(value);
            assert_eq!(text.as_bytes().escape_ascii().to_string(), format!("{value:.4}"));
        }
    }

    #[test]
    fn coordinates_are_exactly_rounded_to_seventeen_digits() {
        let mut prng = Prng::new(5);
        let edges = [0.0, -0.0, 180.0, -180.0, 85.05112878, 1e-17, 5e-18, -5e-18, 1e-300, 5e-324];
        let more = [0.5 - 2_f64.powi(-60), 1.0 - f64::EPSILON / 2.0, -1023.9999999999999];
        let random = (0..200_000).map(|_| {
            let value = (prng.below(1 << 53) as f64 / (1_u64 << 53) as f64 - 0.5) * 360.0;
            value * 2_f64.powi(-(prng.below(80) as i32))
        });
        for value in edges.into_iter().chain(more).chain(random) {
            let exact = format!("{value:.17}");
            let exact = exact.trim_end_matches('0').trim_end_matches('.');
            let exact = if exact == "-0" { "0" } else { exact };
            assert_eq!(CoordinateText::new(value).as_str(), exact, "{value:e}");
        }
    }

    #[test]
    fn seventeen_digits_are_those_of_printf() {
        for (value, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.10000000000000001"),
            (3.3, "3.2999999999999998"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123456789012345678.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1e300, "1.0000000000000001e+300"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(double_in_17_digits(value), expected);
        }
    }

    #[test]
    fn doubles_read_back_as_themselves() {
        let mut prng = Prng::new(2);
        for _ in 0..100_000 {
            let value = f64::from_bits(prng.next());
            if value.is_nan() {
                continue;
            }
            let text = DoubleText::new(value);
            let text = std::str::from_utf8(text.as_bytes()).unwrap();
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits(), "text {text}");
        }
    }
}
