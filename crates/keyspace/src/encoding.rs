//! Which encoding a string gets when it is written, as Redis decides it.

use arena::Encoding;

/// The longest string that OBJECT ENCODING calls embstr.
pub const EMBSTR_BYTES_MAX: usize = 44;

/// Returns the encoding of a value that was written as a whole.
#[inline]
pub(crate) fn encoding_of(value: &[u8]) -> Encoding {
    if is_canonical_integer(value) { Encoding::Int } else { encoding_of_text(value) }
}

/// Returns the encoding of a value that Redis does not try to store as an integer.
pub(crate) fn encoding_of_text(value: &[u8]) -> Encoding {
    if value.len() <= EMBSTR_BYTES_MAX { Encoding::Embstr } else { Encoding::Raw }
}

/// Returns whether `value` is the one decimal text of a 64-bit integer: no sign but a needed
/// minus, no leading zero.
#[inline]
fn is_canonical_integer(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    match digits {
        [b'0'] => value.len() == 1,
        [b'1'..=b'9', rest @ ..] if rest.len() < 19 => {
            rest.iter().all(u8::is_ascii_digit) && fits(digits, value.len() > digits.len())
        }
        _ => false,
    }
}

/// Returns whether up to 19 digits without leading zero fit a 64-bit integer.
fn fits(digits: &[u8], negative: bool) -> bool {
    let bound = if negative { b"9223372036854775808" } else { b"9223372036854775807" };
    digits.len() < bound.len() || digits <= bound.as_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_integers_are_int_and_nothing_else_is() {
        for value in ["0", "7", "-1", "10", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(encoding_of(value.as_bytes()), Encoding::Int, "{value}");
        }
        for value in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
            "-9223372036854775809",
            "12345678901234567890",
            "1a",
        ] {
            assert_eq!(encoding_of(value.as_bytes()), Encoding::Embstr, "{value}");
        }
    }

    #[test]
    fn embstr_ends_at_44_bytes() {
        assert_eq!(encoding_of(&[b'x'; 44]), Encoding::Embstr);
        assert_eq!(encoding_of(&[b'x'; 45]), Encoding::Raw);
    }
}
