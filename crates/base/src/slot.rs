//! Cluster slots: CRC16 (XMODEM) of a key's hash tag, modulo 16384, as Redis Cluster defines it.

/// The number of cluster slots.
pub const SLOT_COUNT: usize = 16_384;

/// A cluster slot, `0..SLOT_COUNT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u16);

/// Returns the cluster slot of `key`: of the part between the first `{` and the next `}` where
/// that part is not empty, else of the whole key.
///
/// Source: Redis Cluster specification, "Hash tags".
pub fn key_slot(key: &[u8]) -> Slot {
    Slot(crc16(hash_tag(key)) & (SLOT_COUNT as u16 - 1))
}

/// Returns the part of `key` that decides its slot.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    if !has_open(key) {
        return key;
    }
    let open = key.iter().position(|&byte| byte == b'{').expect("it has one");
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        Some(0) | None => key,
        Some(close) => &rest[..close],
    }
}

/// Returns whether `key` has an opening brace, which few keys have: eight bytes a step.
#[inline]
fn has_open(key: &[u8]) -> bool {
    let (words, rest) = key.as_chunks();
    let in_rest = || match key.last_chunk() {
        Some(last) => word_has_open(last),
        None => rest.contains(&b'{'),
    };
    words.iter().any(word_has_open) || !rest.is_empty() && in_rest()
}

#[inline]
fn word_has_open(bytes: &[u8; 8]) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    // A brace becomes zero, and only a zero borrows from a high bit that is not set.
    let word = u64::from_le_bytes(*bytes) ^ (ONES * b'{' as u64);
    word.wrapping_sub(ONES) & !word & (ONES << 7) != 0
}

/// Returns the CRC16 (polynomial 0x1021, initial value 0) of `bytes`, eight bytes a step.
pub fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0_u16;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let [high, low] = [(crc >> 8) as u8, (crc & 0xff) as u8];
        crc = TABLES[7][usize::from(chunk[0] ^ high)]
            ^ TABLES[6][usize::from(chunk[1] ^ low)]
            ^ TABLES[5][usize::from(chunk[2])]
            ^ TABLES[4][usize::from(chunk[3])]
            ^ TABLES[3][usize::from(chunk[4])]
            ^ TABLES[2][usize::from(chunk[5])]
            ^ TABLES[1][usize::from(chunk[6])]
            ^ TABLES[0][usize::from(chunk[7])];
    }
    for &byte in chunks.remainder() {
        crc = (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)];
    }
    crc
}

/// `TABLES[k][b]` is the CRC of byte `b` followed by `k` zero bytes.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0_u16; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut depth = 1;
    while depth < 8 {
        let mut byte = 0;
        while byte < 256 {
            let previous = tables[depth - 1][byte];
            tables[depth][byte] = (previous << 8) ^ tables[0][(previous >> 8) as usize];
            byte += 1;
        }
        depth += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc16_by_bits(bytes: &[u8]) -> u16 {
        let mut crc = 0_u16;
        for &byte in bytes {
            crc ^= u16::from(byte) << 8;
            for _ in 0..8 {
                crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            }
        }
        crc
    }

    #[test]
    fn check_value_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }

    #[test]
    fn sliced_crc_equals_the_bitwise_one_at_every_length() {
        let bytes: Vec<u8> = (0..100_u32).map(|i| (i * 37 + 11) as u8).collect();
        for length in 0..bytes.len() {
            assert_eq!(crc16(&bytes[..length]), crc16_by_bits(&bytes[..length]), "{length}");
        }
    }

    #[test]
    fn hash_tag_is_found_wherever_it_is() {
        for length in 3..40 {
            for open in 0..length - 2 {
                let mut key: Vec<u8> = (0..length as u8).map(|byte| b'{' ^ (byte + 1)).collect();
                assert_eq!(hash_tag(&key), key);
                (key[open], key[open + 1], key[open + 2]) = (b'{', b'x', b'}');
                assert_eq!(hash_tag(&key), b"x", "{open} of {length}");
            }
        }
    }

    #[test]
    fn hash_tag_is_the_first_nonempty_brace_pair() {
        for (key, tag) in [
            ("plain", "plain"),
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }
}
