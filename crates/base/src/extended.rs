//! The 80-bit floating-point numbers of the x87: what INCRBYFLOAT computes with.
//!
//! Redis on x86 adds with C's `long double`. Only the same 64 bits of precision, the same reading
//! (`strtold`) and the same writing (`%.17Lf`) give the same results on every machine, so the few
//! operations that this needs are done here in integers, exactly rounded.
//!
//! A finite number is `mantissa x 2^scale`. The mantissa's top bit is set unless the number is
//! denormal (`scale` at its least) or zero.

use std::cmp::Ordering;

use crate::natural::Natural;
use crate::number::short_decimal_digits;
use crate::number_text::IntegerText;

/// The least exponent of the lowest mantissa bit: that of denormal numbers.
const SCALE_MIN: i32 = -16_445;
/// The greatest exponent of the lowest mantissa bit.
const SCALE_MAX: i32 = 16_320;
/// Bits of the mantissa.
const MANTISSA_BITS: u32 = 64;
/// The longest text that Redis tries to read as a number.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// Decimal digits after the point in the text.
const FRACTION_DIGITS: usize = 17;
/// A decimal exponent beyond which any text of `TEXT_BYTES_MAX` digits is infinite, or zero.
const DECIMAL_EXPONENT_MAX: i64 = 20_000;

/// A number in the x87's extended format; never NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended(Value);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Finite(Finite),
    Infinite { negative: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Finite {
    negative: bool,
    mantissa: u64,
    scale: i32,
}

impl Extended {
    /// Positive zero.
    pub const ZERO: Extended = Extended(Value::Finite(Finite::ZERO));
    /// One.
    pub const ONE: Extended = Extended(Value::Finite(Finite {
        negative: false,
        mantissa: 1 << (MANTISSA_BITS - 1),
        scale: 1 - MANTISSA_BITS as i32,
    }));
    /// The greatest finite number.
    pub const MAX: Extended = Extended(Value::Finite(Finite::GREATEST));
    /// The least finite number.
    pub const MIN: Extended =
        Extended(Value::Finite(Finite { negative: true, ..Finite::GREATEST }));

    /// Reads `text` as Redis does: a decimal or hexadecimal number as `strtold` takes it, or
    /// `inf`; nothing before or after it, no NaN, no overflow, no underflow to zero.
    ///
    /// Source: Redis 7.2, `string2ld` in `util.c`.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] | rest => (false, rest),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Extended(Value::Infinite { negative }));
        }
        if let Some(value) = short_decimal(negative, rest) {
            return Some(Extended(value));
        }
        let (literal, radix) = match rest {
            [b'0', b'x' | b'X', rest @ ..] => (Literal::parse(rest, 16)?, 16),
            rest => (Literal::parse(rest, 10)?, 10),
        };
        let value = if radix == 16 { literal.binary(negative) } else { literal.decimal(negative) };
        match value {
            Value::Finite(Finite { mantissa: 0, .. }) if !literal.digits.is_zero() => None,
            Value::Finite(_) => Some(Extended(value)),
            Value::Infinite { .. } => None,
        }
    }

    /// Returns the sum, rounded to nearest, ties to even; `None` for infinity minus infinity.
    pub fn checked_add(self, other: Extended) -> Option<Extended> {
        match (self.0, other.0) {
            (Value::Finite(a), Value::Finite(b)) => Some(Extended(a.add(b))),
            (Value::Finite(_), infinite) | (infinite, Value::Finite(_)) => Some(Extended(infinite)),
            (a, b) => (a == b).then_some(self),
        }
    }

    /// Returns the number with the other sign.
    pub fn negated(self) -> Extended {
        Extended(match self.0 {
            Value::Finite(number) => Value::Finite(Finite { negative: !number.negative, ..number }),
            Value::Infinite { negative } => Value::Infinite { negative: !negative },
        })
    }

    /// Compares two numbers; both zeroes are equal.
    pub fn order(self, other: Extended) -> Ordering {
        // The top bit of a mantissa is set but in the numbers of the least scale.
        let magnitude = |number: Extended| match number.0 {
            Value::Finite(Finite { mantissa, scale, .. }) => (scale, mantissa),
            Value::Infinite { .. } => (i32::MAX, 0),
        };
        let by_magnitude = magnitude(self).cmp(&magnitude(other));
        match (self.is_negative(), other.is_negative()) {
            (false, false) => by_magnitude,
            (true, true) => by_magnitude.reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }

    /// Returns the product with `factor`, rounded to nearest, ties to even, and then up to a whole
    /// number; none where that has more than 64 bits.
    pub fn ceiling_of_product(self, factor: u32) -> Option<i64> {
        let Value::Finite(Finite { negative, mantissa, scale }) = self.0 else { return None };
        let product = round(negative, u128::from(mantissa) * u128::from(factor), scale, false);
        let Value::Finite(Finite { mantissa, scale, .. }) = product else { return None };
        let (whole, is_more) = match scale {
            1.. => (u128::from(mantissa).checked_mul(1 << scale.min(64))?, false),
            _ => {
                let shift = scale.unsigned_abs();
                let whole = mantissa.checked_shr(shift).unwrap_or(0);
                let rest = mantissa.checked_sub(whole.checked_shl(shift).unwrap_or(0));
                (u128::from(whole), rest != Some(0))
            }
        };
        let whole = i128::try_from(whole).ok()?;
        let ceiling = if negative { -whole } else { whole + i128::from(is_more) };
        i64::try_from(ceiling).ok()
    }

    /// Returns whether the number is below zero.
    pub fn is_negative(self) -> bool {
        match self.0 {
            Value::Finite(number) => number.negative && number.mantissa > 0,
            Value::Infinite { negative } => negative,
        }
    }

    /// Returns whether the number is not infinite.
    pub fn is_finite(self) -> bool {
        matches!(self.0, Value::Finite(_))
    }

    /// Returns the number with up to 17 digits after the point (exactly rounded, ties to even) and
    /// no zero at their end.
    ///
    /// Source: Redis 7.2, `ld2string` in its human mode.
    pub fn to_text(self) -> String {
        match self.0 {
            Value::Infinite { negative: true } => "-inf".into(),
            Value::Infinite { negative: false } => "inf".into(),
            Value::Finite(number) => number.to_text(),
        }
    }
}

impl Finite {
    const ZERO: Finite = Finite { negative: false, mantissa: 0, scale: SCALE_MIN };
    const GREATEST: Finite = Finite { negative: false, mantissa: u64::MAX, scale: SCALE_MAX };

    /// Both mantissas get 62 more bits. What the smaller number loses below them counts as one
    /// more low bit: a sum needs no more than that, and a difference loses at most one bit of
    /// length where anything was lost.
    fn add(self, other: Finite) -> Value {
        const GUARD_BITS: u32 = 62;
        let is_ahead = (self.scale, self.mantissa) >= (other.scale, other.mantissa);
        let (large, small) = if is_ahead { (self, other) } else { (other, self) };
        let high = u128::from(large.mantissa) << GUARD_BITS;
        let wide = u128::from(small.mantissa) << GUARD_BITS;
        let distance = large.scale.abs_diff(small.scale);
        let kept = wide.checked_shr(distance).unwrap_or(0);
        let is_lossy = kept.checked_shl(distance).unwrap_or(0) != wide;
        let low = kept | u128::from(is_lossy);
        let scale = large.scale - GUARD_BITS as i32;
        if large.negative == small.negative {
            return round(large.negative, high + low, scale, false);
        }
        // An exact zero is positive, whatever its parts were.
        round(large.negative && high != low, high - low, scale, false)
    }

    fn to_text(self) -> String {
        let digits = if self.scale >= 0 {
            let mut whole = Natural::from(u128::from(self.mantissa));
            whole.shift_left(self.scale.unsigned_abs());
            whole.to_decimal()
        } else {
            fixed_point(self.mantissa, self.scale.unsigned_abs())
        };
        if self.negative && digits != "0" { format!("-{digits}") } else { digits }
    }
}

/// Rounds `bits x 2^scale` to nearest, ties to even; `sticky` says that a little more was lost
/// below the lowest bit, which more than 64 bits are there for.
fn round(negative: bool, bits: u128, scale: i32, sticky: bool) -> Value {
    if bits == 0 {
        return Value::Finite(Finite { negative, ..Finite::ZERO });
    }
    let length = (u128::BITS - bits.leading_zeros()) as i32;
    let excess = (length - MANTISSA_BITS as i32).max(SCALE_MIN - scale);
    if excess <= 0 {
        assert!(!sticky, "nothing was lost of a number that fits");
        let mantissa = (bits as u64) << -excess;
        return bounded(Finite { negative, mantissa, scale: scale + excess });
    }
    let (kept, half, rest) = split(bits, excess.unsigned_abs());
    let is_up = half && (rest || sticky || kept & 1 == 1);
    let (mantissa, carried) = kept.overflowing_add(u64::from(is_up));
    let scale = scale + excess;
    bounded(match carried {
        true => Finite { negative, mantissa: 1 << (MANTISSA_BITS - 1), scale: scale + 1 },
        false => Finite { negative, mantissa, scale },
    })
}

/// Makes infinite what is beyond the format.
fn bounded(number: Finite) -> Value {
    if number.scale > SCALE_MAX {
        Value::Infinite { negative: number.negative }
    } else {
        Value::Finite(number)
    }
}

/// Returns the bits above the lowest `count`, the bit below them and whether any lower one is set.
/// At most 64 bits remain above.
fn split(bits: u128, count: u32) -> (u64, bool, bool) {
    if count > u128::BITS {
        return (0, false, true);
    }
    let half = bits >> (count - 1) & 1 == 1;
    let rest = bits & ((1 << (count - 1)) - 1) != 0;
    (bits.checked_shr(count).unwrap_or(0) as u64, half, rest)
}

/// Returns `mantissa / 2^shift` with up to 17 digits after the point.
fn fixed_point(mantissa: u64, shift: u32) -> String {
    // Below 2^57, so that a product with a mantissa is below 2^121.
    const ONE: u64 = 10_u64.pow(FRACTION_DIGITS as u32);
    let whole = mantissa.checked_shr(shift).unwrap_or(0);
    let part = if shift < u64::BITS { mantissa & ((1 << shift) - 1) } else { mantissa };
    let rounded = if shift > u128::BITS {
        0
    } else {
        let scaled = u128::from(part) * u128::from(ONE);
        let half = 1_u128 << (shift - 1);
        let rest = scaled & (half | (half - 1));
        let kept = scaled.checked_shr(shift).unwrap_or(0) as u64;
        kept + u64::from(rest > half || rest == half && kept & 1 == 1)
    };
    let whole = IntegerText::unsigned(whole + rounded / ONE);
    let mut text = String::with_capacity(whole.as_bytes().len() + 1 + FRACTION_DIGITS);
    text.extend(whole.as_bytes().iter().map(|&digit| char::from(digit)));
    let fraction = rounded % ONE;
    if fraction > 0 {
        // A one in front keeps the zeroes behind the point.
        let digits = IntegerText::unsigned(ONE + fraction);
        let kept = digits.as_bytes().iter().rposition(|&digit| digit != b'0').expect("not zero");
        text.push('.');
        text.extend(digits.as_bytes()[1..=kept].iter().map(|&digit| char::from(digit)));
    }
    text
}

/// Returns the number that `text` is where that is a few digits, with a point among them if any, as
/// of most numbers; other texts may be numbers too.
fn short_decimal(negative: bool, text: &[u8]) -> Option<Value> {
    let (number, behind) = short_decimal_digits(text)?;
    // Of a quotient by a greater power of ten there would be too few bits.
    if behind > FRACTION_DIGITS {
        return None;
    }
    let divisor = u128::from(10_u64.pow(behind as u32));
    let unused = u64::BITS + number.leading_zeros();
    let wide = u128::from(number).checked_shl(unused).unwrap_or(0);
    Some(round(negative, wide / divisor, -(unused as i32), wide % divisor != 0))
}

/// A number as it is written: `digits x radix^exponent`, or x 2^exponent where hexadecimal.
struct Literal {
    digits: Natural,
    exponent: i64,
}

impl Literal {
    /// Reads digits of `radix` with at most one point among them and an optional exponent (`e`, or
    /// `p` where hexadecimal), and nothing else.
    fn parse(text: &[u8], radix: u32) -> Option<Literal> {
        let mut digits = Natural::default();
        let mut digit_count = 0;
        let mut exponent = 0;
        let mut point = false;
        let mut rest = text;
        while let [byte, tail @ ..] = rest {
            if let Some(digit) = char::from(*byte).to_digit(radix) {
                digits.multiply_add(u64::from(radix), u64::from(digit));
                digit_count += 1;
                exponent -= i64::from(point);
            } else if *byte == b'.' && !point {
                point = true;
            } else {
                break;
            }
            rest = tail;
        }
        if digit_count == 0 {
            return None;
        }
        if radix == 16 {
            exponent *= 4;
        }
        let mark = if radix == 16 { b'p' } else { b'e' };
        match rest {
            [] => Some(Literal { digits, exponent }),
            [byte, tail @ ..] if byte.to_ascii_lowercase() == mark => {
                Some(Literal { digits, exponent: exponent.saturating_add(written_exponent(tail)?) })
            }
            _ => None,
        }
    }

    fn binary(&self, negative: bool) -> Value {
        let (bits, dropped, sticky) = self.digits.top_bits();
        let scale = self.exponent.saturating_add(i64::from(dropped));
        let scale = scale.clamp(-i64::from(i32::MAX) / 2, i64::from(i32::MAX) / 2) as i32;
        round(negative, bits, scale, sticky)
    }

    fn decimal(&self, negative: bool) -> Value {
        let mut digits = self.digits.clone();
        let exponent = self.exponent.clamp(-DECIMAL_EXPONENT_MAX, DECIMAL_EXPONENT_MAX) as i32;
        if exponent >= 0 {
            digits.multiply_by_power_of_five(exponent.unsigned_abs());
            let (bits, dropped, sticky) = digits.top_bits();
            return round(negative, bits, exponent + dropped as i32, sticky);
        }
        // Enough bits that at least 66 remain after the division: 5^n is below 2^(7n/3).
        let room = MANTISSA_BITS + 2 + exponent.unsigned_abs() * 7 / 3;
        digits.shift_left(room);
        let remainder = digits.divide_by_power_of_five(exponent.unsigned_abs());
        let (bits, dropped, sticky) = digits.top_bits();
        let scale = exponent - room as i32 + dropped as i32;
        round(negative, bits, scale, sticky || remainder)
    }
}

/// Reads the exponent of a number, capped far beyond what the format holds.
fn written_exponent(text: &[u8]) -> Option<i64> {
    const CAP: i64 = 1 << 40;
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0;
    for &byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = (value * 10 + i64::from(byte - b'0')).min(CAP);
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_sum(a: &str, b: &str, expected: &str) {
        let [left, right] = [a, b].map(|text| Extended::parse(text.as_bytes()).expect("a number"));
        for sum in [left.checked_add(right), right.checked_add(left)] {
            let sum = sum.expect("a number").to_text();
            assert_eq!(sum, expected, "{a} + {b}");
        }
    }

    #[test]
    fn numbers_are_in_order_and_negated() {
        let texts = [
            "-inf",
            "-1e4932",
            "-2",
            "-1.5",
            "-1",
            "-1e-4950",
            "0",
            "3.6e-4951",
            "1e-4950",
            "0.5",
            "1",
            "1.0000000000000000002",
            "1e4000",
            "1.18e4932",
            "inf",
        ];
        let numbers = texts.map(|text| Extended::parse(text.as_bytes()).expect("a number"));
        for (index, one) in numbers.into_iter().enumerate() {
            for (other_index, other) in numbers.into_iter().enumerate() {
                let expected = index.cmp(&other_index);
                assert_eq!(one.order(other), expected, "{} {}", texts[index], texts[other_index]);
                assert_eq!(other.negated().order(one.negated()), expected);
            }
        }
        let minus_zero = Extended::parse(b"-0").unwrap();
        assert!(minus_zero.order(Extended::ZERO).is_eq() && Extended::ONE == numbers[10]);
        let half_a_step = Extended::parse(b"1.18973149535723176502e4932").unwrap();
        assert_eq!(half_a_step, Extended::MAX);
        assert!(!Extended::MAX.checked_add(Extended::MAX).unwrap().is_finite());
        assert_eq!(Extended::MIN.negated(), Extended::MAX);
    }

    #[test]
    fn a_product_is_rounded_up_to_a_whole_number_and_above_zero_to_one_at_least() {
        let ceiling = |text: &[u8]| Extended::parse(text).unwrap().ceiling_of_product(1_000);
        for (text, expected) in [
            (&b"0"[..], Some(0)),
            (b"-0", Some(0)),
            (b"1", Some(1_000)),
            (b"0.001", Some(1)),
            (b"0.0010001", Some(2)),
            (b"1.0005", Some(1_001)),
            (b"1e-18", Some(1)),
            (b"1e-400", Some(1)),
            (b"1e-4940", Some(1)),
            (b"-1e-400", Some(0)),
            (b"-0.0015", Some(-1)),
            (b"-7.5", Some(-7_500)),
            (b"9223372036854775", Some(9_223_372_036_854_775_000)),
            (b"-9223372036854775", Some(-9_223_372_036_854_775_000)),
            (b"9223372036854776", None),
            (b"0x1p53", Some((1 << 53) * 1_000)),
            (b"1e25", None),
            (b"1e3000", None),
            (b"1e4931", None),
            (b"-inf", None),
        ] {
            assert_eq!(ceiling(text), expected, "{}", String::from_utf8_lossy(text));
        }
    }

    /// The results of a C program with `long double` on x86.
    #[test]
    fn sums_are_those_of_the_x87() {
        check_sum("0", "0", "0");
        check_sum("10.5", "0.1", "10.6");
        check_sum("0.1", "0.2", "0.3");
        check_sum("5.0e3", "2.0e2", "5200");
        check_sum("3", "1.1", "4.1");
        check_sum("-1.1", "1.1", "0");
        check_sum("-0", "-0", "0");
        check_sum("1", "-1e-30", "1");
        check_sum("-1e-30", "0", "0");
        check_sum("9223372036854775807", "1", "9223372036854775808");
        check_sum("18446744073709551615", "1", "18446744073709551616");
        check_sum("18446744073709551616", "1", "18446744073709551616");
        check_sum("18446744073709551616", "3", "18446744073709551620");
        check_sum("1e20", "1", "100000000000000000000");
    }

    #[track_caller]
    fn check_text(text: &str, expected: Option<&str>) {
        let found = Extended::parse(text.as_bytes()).map(Extended::to_text);
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn texts_are_read_as_strtold_does() {
        check_text("1.", Some("1"));
        check_text(".5", Some("0.5"));
        check_text("+1e+2", Some("100"));
        check_text("1E-2", Some("0.01"));
        check_text("0x10", Some("16"));
        check_text("-0X.8p1", Some("-1"));
        check_text("0x1P-2", Some("0.25"));
        check_text("inf", Some("inf"));
        check_text("-InFiNiTy", Some("-inf"));
        check_text("0e999999999999999999999", Some("0"));
        check_text("2e-4951", Some("0"));
        for text in [
            "",
            " 1",
            "1 ",
            "+",
            "-",
            ".",
            "e1",
            "1e",
            "1e+",
            "1.2.3",
            "0x",
            "0x.",
            "0x1p",
            "1p1",
            "nan",
            "-nan",
            "infinit",
            "--1",
            "1_0",
            "1\0",
            "1e4933",
            "-1e5000",
            "1e-4952",
            "1e-99999999999999999999",
        ] {
            check_text(text, None);
        }
        check_text(&"0".repeat(TEXT_BYTES_MAX), Some("0"));
        check_text(&"0".repeat(TEXT_BYTES_MAX + 1), None);
    }

    #[test]
    fn short_decimals_are_what_any_decimal_is() {
        let mut prng = crate::prng::Prng::new(1);
        for _ in 0..100_000 {
            let mut text = (prng.next() >> prng.below(64)).to_string();
            if prng.one_in(3) {
                // Of a quotient by so much the fewest bits are left below those that are kept.
                let digits = prng.below(10_u64.pow(17));
                text = format!("{}.{digits:017}", prng.below(10));
            } else if prng.one_in(2) {
                let places = text.len() as u64 + 1;
                text.insert(prng.below(places) as usize, '.');
            }
            let literal = Literal::parse(text.as_bytes(), 10).expect("a decimal");
            if let Some(value) = short_decimal(false, text.as_bytes()) {
                assert_eq!(value, literal.decimal(false), "{text}");
                let Value::Finite(number) = value else { panic!("{text}") };
                let (shift, ours) = (number.scale.unsigned_abs(), number.to_text());
                let wide = u128::from(number.mantissa) * 10_u128.pow(17);
                if number.scale < 0 && shift < u128::BITS && number.mantissa > 0 {
                    let (kept, rest) = (wide >> shift, wide << (u128::BITS - shift));
                    let half = 1 << (u128::BITS - 1);
                    let kept = kept + u128::from(rest > half || rest == half && kept & 1 == 1);
                    let exact = format!("{}.{:017}", kept / ONE_IN_17, kept % ONE_IN_17);
                    assert_eq!(ours, exact.trim_end_matches('0').trim_end_matches('.'), "{text}");
                }
            }
        }
    }

    const ONE_IN_17: u128 = 10_u128.pow(17);

    #[test]
    fn infinities_of_both_signs_have_no_sum() {
        let [plus, minus] = [b"inf".as_slice(), b"-inf"].map(|text| Extended::parse(text).unwrap());
        assert_eq!(plus.checked_add(minus), None);
        assert_eq!(plus.checked_add(plus), Some(plus));
        assert_eq!(Extended::ZERO.checked_add(minus), Some(minus));
    }
}
