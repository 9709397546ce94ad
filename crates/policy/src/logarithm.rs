//! Logarithms and sums of powers in whole numbers: the same on every machine.
//!
//! A [`Log`] is a base-2 logarithm in 256ths: 256 is an octave, a factor of 2.

/// A base-2 logarithm in 256ths.
pub type Log = i32;

/// One octave.
pub const OCTAVE: Log = 256;
/// The logarithm of nothing: so small that a sum ignores it and no difference overflows.
pub const NOTHING: Log = i32::MIN / 4;

/// How finely [`SUMS`] knows the difference of two logarithms: steps of a 16th of an octave.
const SUM_STEP: Log = OCTAVE / 16;
/// The octaves beyond which the smaller of two numbers adds less than a 65536th of an octave.
const SUM_OCTAVES: usize = 17;
/// The last one, of all differences beyond, is 0.
const SUM_COUNT: usize = SUM_OCTAVES * 16 + 1;

/// For each step of a difference d, in its middle: log2(1 + 2^-d) in 65536ths of an octave.
const SUMS: [u16; SUM_COUNT] = sums();

/// For each 256th: log2(1 + x / 256) in 256ths.
const MANTISSAS: [u8; 256] = mantissas();

/// Returns log2(1 + 2^-difference) in 65536ths of an octave: how much a number grows when another
/// is added that is smaller by `difference`.
///
/// # Panics
/// In tests, when `difference` is negative.
#[inline]
pub fn growth(difference: Log) -> u32 {
    debug_assert!(difference >= 0, "the larger number comes first");
    let step = (difference as u32 / SUM_STEP as u32) as usize;
    u32::from(SUMS[step.min(SUM_COUNT - 1)])
}

/// Returns log2(1 + 2^-(`eighths` / 8)) in 65536ths of an octave.
pub const fn growth_of_eighths(eighths: u32) -> u32 {
    // 2^(-1/8), in 2^-32ths.
    let eighth = 3_938_502_376_u64;
    let mut power = 1 << 32;
    let mut left = eighths;
    while left > 0 && power > 0 {
        power = ((power as u128 * eighth as u128) >> 32) as u64;
        left -= 1;
    }
    match power < 1 << 32 {
        true => log2_of_mantissa((1 << 32) + power) as u32,
        // Twice a number is an octave more.
        false => 1 << 16,
    }
}

/// Returns the logarithm of 2^`left` + 2^`right`.
#[inline]
pub fn sum(left: Log, right: Log) -> Log {
    let (high, low) = if left > right { (left, right) } else { (right, left) };
    high + (growth(high - low) >> 8) as Log
}

/// Returns the logarithm of `number`; 0 for 0.
#[inline]
pub fn of(number: u64) -> Log {
    let number = number.max(1);
    let octave = 63 - number.leading_zeros();
    let mantissa = (number << (63 - octave)) >> 55 & 255;
    octave as Log * OCTAVE + Log::from(MANTISSAS[mantissa as usize])
}

/// Returns 2^`exponent` of 256ths, rounded down; 0 for a negative exponent.
pub fn power(exponent: Log) -> u64 {
    if exponent < 0 {
        return 0;
    }
    let (octave, part) = (exponent / OCTAVE, exponent % OCTAVE);
    let mantissa = MANTISSAS.iter().rposition(|one| Log::from(*one) <= part).unwrap_or(0) as u64;
    let scaled = 256 + mantissa;
    if octave >= 8 { scaled << (octave - 8).min(54) } else { scaled >> (8 - octave) }
}

/// Returns log2 of `number` / 2^32, for one from 2^32 to 2^33, in 65536ths: squares it bit by bit.
const fn log2_of_mantissa(mut number: u64) -> u64 {
    let mut result = 0;
    let mut bit = 1 << 15;
    while bit > 0 {
        let square = ((number as u128 * number as u128) >> 32) as u64;
        if square >= 1 << 33 {
            result += bit;
            number = square >> 1;
        } else {
            number = square;
        }
        bit >>= 1;
    }
    result
}

const fn mantissas() -> [u8; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        table[index] = (log2_of_mantissa((256 + index as u64) << 24) >> 8) as u8;
        index += 1;
    }
    table
}

const fn sums() -> [u16; SUM_COUNT] {
    // 2^(-1/32) and 2^(-1/16), in 2^-32ths.
    let (half_step, step) = (4_202_935_003_u64, 4_112_874_773_u64);
    let mut power = half_step;
    let mut table = [0; SUM_COUNT];
    let mut index = 0;
    while index < SUM_COUNT - 1 {
        table[index] = log2_of_mantissa((1 << 32) + power) as u16;
        power = ((power as u128 * step as u128) >> 32) as u64;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octaves(log: Log) -> f64 {
        f64::from(log) / f64::from(OCTAVE)
    }

    #[test]
    fn logarithms_are_right_to_a_hundredth_of_an_octave() {
        for number in (1..5000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX]) {
            let error = octaves(of(number)) - (number as f64).log2();
            assert!(error.abs() <= 0.01, "{number}: {error}");
        }
        assert_eq!(of(0), 0);
    }

    #[test]
    fn sums_are_right_to_a_32nd_of_an_octave() {
        for difference in 0..20 * OCTAVE {
            let expected = (1.0 + (-octaves(difference)).exp2()).log2();
            let found = f64::from(growth(difference)) / 65536.0;
            assert!((found - expected).abs() <= 1.0 / 32.0, "{difference}: {found}, {expected}");
        }
        assert_eq!(sum(NOTHING, 700), 700);
        assert_eq!(sum(300, NOTHING), 300);
        assert!((sum(512, 512) - 768).abs() <= 8, "twice a number is an octave more");
    }

    #[test]
    fn powers_undo_logarithms() {
        for number in [1_u64, 2, 3, 100, 1000, 123_456, 1 << 33] {
            let found = power(of(number)) as f64;
            assert!((found / number as f64 - 1.0).abs() < 0.01, "{number}: {found}");
        }
        assert_eq!(power(-1), 0);
    }
}
