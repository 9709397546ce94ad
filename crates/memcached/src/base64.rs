//! Keys that are no text, in base64 with padding (RFC 4648, section 4).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the bytes that `length` bytes take in base64.
pub(crate) fn encoded_bytes(length: usize) -> usize {
    length.div_ceil(3) * 4
}

/// Decodes the start of `text` in place and returns how many bytes it is; `None` where it is not
/// base64, and then `text` is as it was.
pub(crate) fn decode_in_place(text: &mut [u8]) -> Option<usize> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = text.len() - padding;
    if text.is_empty() || !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    if !text[..digits].iter().all(|byte| value_of(*byte).is_some()) {
        return None;
    }
    let mut length = 0;
    for group in (0..text.len()).step_by(4) {
        let word = text[group..group + 4]
            .iter()
            .fold(0, |word, byte| word << 6 | value_of(*byte).unwrap_or(0));
        for shift in [16, 8, 0] {
            // The third of a group's bytes is never behind its fourth letter.
            text[length] = (word >> shift) as u8;
            length += 1;
        }
    }
    Some(length - padding)
}

/// Appends `bytes` in base64 to `out`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = ALPHABET[(word >> (18 - 6 * index) & 63) as usize];
            out.push(if index <= group.len() { letter } else { b'=' });
        }
    }
}

fn value_of(letter: u8) -> Option<u32> {
    ALPHABET.iter().position(|it| *it == letter).map(|value| value as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for length in 0..70_usize {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 37 + length) as u8).collect();
            let mut text = Vec::new();
            encode(&bytes, &mut text);
            assert_eq!(text.len(), encoded_bytes(length));
            if length > 0 {
                let decoded = decode_in_place(&mut text).unwrap();
                assert_eq!(&text[..decoded], bytes);
            }
        }
        for wrong in ["", "a", "ab=", "a===", "ab!=", "=abc", "ab=c"] {
            assert_eq!(decode_in_place(&mut wrong.as_bytes().to_vec()), None, "{wrong}");
        }
    }
}
