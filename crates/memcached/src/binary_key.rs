//! Keys that are no text, in base64 with padding (RFC 4648, section 4).

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use crate::decode::KEY_BYTES_MAX;

/// As memcached, which does not look at the bits that the last letter has too many.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);
/// The most bytes that a key has once it is decoded.
const DECODED_BYTES_MAX: usize = KEY_BYTES_MAX.div_ceil(4) * 3;

/// Decodes the key `text` to its own start and returns how many bytes it is; `None` where it is not
/// base64, and then `text` is as it was.
pub(crate) fn decode_in_place(text: &mut [u8]) -> Option<usize> {
    let mut key = [0; DECODED_BYTES_MAX];
    let length = BASE64.decode_slice(&*text, &mut key).ok().filter(|length| *length > 0)?;
    text[..length].copy_from_slice(&key[..length]);
    Some(length)
}

/// Appends `key` in base64 to `out`.
pub fn encode_binary_key(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(BASE64.encode(key).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for length in 1..=KEY_BYTES_MAX / 4 * 3 {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 37 + length) as u8).collect();
            let mut text = Vec::new();
            encode_binary_key(&bytes, &mut text);
            let decoded = decode_in_place(&mut text).unwrap();
            assert_eq!(&text[..decoded], bytes);
        }
    }

    #[test]
    fn what_is_not_base64_stays_as_it_was() {
        for wrong in ["", "a", "ab=", "a===", "ab!=", "=abc", "ab=c", "====", "YQ"] {
            let mut text = wrong.as_bytes().to_vec();
            assert_eq!(decode_in_place(&mut text), None, "{wrong}");
            assert_eq!(text, wrong.as_bytes());
        }
        let mut text = b"YR==".to_vec();
        assert_eq!(decode_in_place(&mut text), Some(1), "of the last letter four bits count");
        assert_eq!(text[0], b'a');
    }
}
