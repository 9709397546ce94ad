//! CRC32C, the checksum of what the log keeps (Castagnoli's polynomial; RFC 3720, B.4).

use crc_fast::{CrcAlgorithm, Digest};

/// The polynomial of CRC32C without its first term, the lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// One.
const ONE: u32 = 1 << 31;

/// x to the powers of 2^3 (a byte), 2^4 and so on, modulo the polynomial.
const POWERS: [u32; usize::BITS as usize] = {
    let mut powers = [0; usize::BITS as usize];
    // x itself, squared once for each bit of the exponent.
    let mut power = ONE >> 1;
    let mut bit = 0;
    while bit < 3 + powers.len() {
        if bit >= 3 {
            powers[bit - 3] = power;
        }
        power = product(power, power);
        bit += 1;
    }
    powers
};

/// Returns the product of two polynomials, modulo that of the checksum.
const fn product(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 0;
    while bit < u32::BITS {
        if a & (ONE >> bit) != 0 {
            product ^= b;
        }
        // Times x.
        b = b >> 1 ^ if b & 1 != 0 { POLYNOMIAL } else { 0 };
        bit += 1;
    }
    product
}

/// Returns the checksum of `bytes`.
pub fn of(bytes: &[u8]) -> u32 {
    append(0, bytes)
}

/// Returns the checksum of bytes whose checksum is `first`, followed by `bytes`.
pub fn append(first: u32, bytes: &[u8]) -> u32 {
    // The algorithm's own state is not inverted, as a checksum is.
    let state = u64::from(!first);
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, state);
    digest.update(bytes);
    digest.finalize() as u32
}

/// Returns the checksum of bytes whose checksum is `first`, followed by `length` bytes whose
/// checksum is `second`: for who has that already, and would have to fetch the bytes for another
/// look. Takes as long for many bytes as for a few.
pub fn combine(first: u32, second: u32, length: usize) -> u32 {
    let powers = POWERS.iter().enumerate().filter(|(bit, _)| length >> bit & 1 != 0);
    powers.fold(first, |shifted, (_, &power)| product(power, shifted)) ^ second
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(of(b""), 0);
        assert_eq!(of(b"123456789"), 0xe306_9283);
        // RFC 3720, B.4.
        assert_eq!(of(&[0; 32]), 0x8a91_36aa);
        assert_eq!(of(&[0xff; 32]), 0x62a8_ab43);
    }

    /// One bit after the other, as the polynomial is defined.
    fn by_bits(first: u32, bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!first, |state, &byte| {
            (0..8).fold(state ^ u32::from(byte), |state, _| {
                state >> 1 ^ if state & 1 != 0 { POLYNOMIAL } else { 0 }
            })
        })
    }

    #[test]
    fn checksum_of_parts_is_that_of_all_bytes() {
        let mut random = Prng::new(1);
        let lengths = (0..70).chain([255, 256, 4095, 4096, 4097, 70_000, 262_144, 300_001]);
        for length in lengths {
            let mut bytes = vec![0; 100 + length];
            random.fill(&mut bytes);
            let (first, second) = bytes.split_at(random.below(100) as usize);
            let expected = by_bits(0, &bytes);
            assert_eq!(append(of(first), second), expected, "{length}");
            assert_eq!(combine(of(first), of(second), second.len()), expected);
            assert_eq!(combine(0, expected, bytes.len()), expected, "behind nothing");
            let chain = random.next() as u32;
            let behind = by_bits(chain, &bytes);
            assert_eq!(append(chain, &bytes), behind);
            assert_eq!(combine(chain, expected, bytes.len()), behind, "behind any checksum");
        }
    }
}
