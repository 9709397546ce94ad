//! LZF, as Redis compresses strings with it.
//!
//! ```text
//! 000lllll                   | literal bytes, l + 1 of them
//! lllooooo oooooooo          | l + 2 bytes again that are o + 1 before the end, l from 1 to 6
//! 111ooooo llllllll oooooooo | l + 9 bytes again
//! ```
//!
//! Source: LibLZF, <http://oldhome.schmorp.de/marc/liblzf.html>, for the format. Which of the
//! earlier bytes are found again is this compressor's own.

/// No compressed byte stands for more: three of them for 264.
const RATIO_MAX: usize = 88;
const LITERALS_MAX: usize = 32;
const MATCH_BYTES_MIN: usize = 3;
const MATCH_BYTES_MAX: usize = 264;
const DISTANCE_MAX: usize = 8192;
const MATCH_CODE_BYTES_MAX: usize = 3;

/// Returns whether `compressed` bytes may stand for `length`.
pub(crate) fn may_be(compressed: usize, length: usize) -> bool {
    length.div_ceil(RATIO_MAX) <= compressed
}

/// Appends the `length` bytes that `compressed` stands for to `out`; returns whether it stands for
/// as many.
pub(crate) fn decompress(compressed: &[u8], length: usize, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let has_all = expand(compressed, length, out).is_some() && out.len() - start == length;
    if !has_all {
        out.truncate(start);
    }
    has_all
}

fn expand(mut rest: &[u8], length: usize, out: &mut Vec<u8>) -> Option<()> {
    let (start, end) = (out.len(), out.len() + length);
    while let Some((&control, behind)) = rest.split_first() {
        let control = usize::from(control);
        if control < LITERALS_MAX {
            let (literals, behind) = behind.split_at_checked(control + 1)?;
            if out.len() + literals.len() > end {
                return None;
            }
            out.extend_from_slice(literals);
            rest = behind;
            continue;
        }
        let (mut count, mut behind) = (control >> 5, behind);
        if count == 7 {
            let (&more, after) = behind.split_first()?;
            (count, behind) = (count + usize::from(more), after);
        }
        let (&low, behind) = behind.split_first()?;
        let distance = ((control & 0x1F) << 8 | usize::from(low)) + 1;
        let count = count + 2;
        if distance > out.len() - start || out.len() + count > end {
            return None;
        }
        repeat(out, distance, count);
        rest = behind;
    }
    Some(())
}

/// Appends `count` bytes that begin `distance` before the end: where they are more, they are the
/// same again and again.
fn repeat(out: &mut Vec<u8>, distance: usize, count: usize) {
    let from = out.len() - distance;
    let mut left = count;
    while left > 0 {
        // What is there to copy doubles each time.
        let piece = left.min(out.len() - from);
        out.extend_from_within(from..from + piece);
        left -= piece;
    }
}

const TABLE_BITS: u32 = 14;

/// Finds bytes again within one string; its table serves many.
#[derive(Default)]
pub(crate) struct Compressor {
    /// Where three bytes with a hash were last: their position in all strings so far, from 1 on.
    table: Vec<u32>,
    /// What came in the strings before.
    base: u32,
}

impl Compressor {
    /// Appends `input`, compressed to at most `bytes_max` bytes, to `out`; returns whether that is
    /// possible, and leaves `out` as it is where not.
    pub fn compress(&mut self, input: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> bool {
        let Ok(length) = u32::try_from(input.len()) else { return false };
        if self.table.is_empty() || self.base.checked_add(length).is_none() {
            self.table.clear();
            self.table.resize(1 << TABLE_BITS, 0);
            self.base = 0;
        }
        let start = out.len();
        let fits = self.compress_within(input, start + bytes_max, out).is_some();
        if !fits {
            out.truncate(start);
        }
        self.base += length;
        fits
    }

    fn compress_within(&mut self, input: &[u8], end: usize, out: &mut Vec<u8>) -> Option<()> {
        let (mut at, mut literals) = (0, 0);
        while at + MATCH_BYTES_MIN <= input.len() {
            let Some((distance, length)) = self.find(input, at) else {
                at += 1;
                if out.len() + literal_bytes(at - literals) > end {
                    return None;
                }
                continue;
            };
            // Before they are written, so that `out` does not grow beyond its room for nothing.
            if out.len() + literal_bytes(at - literals) + MATCH_CODE_BYTES_MAX > end {
                return None;
            }
            put_literals(&input[literals..at], out);
            put_match(distance, length, out);
            // The end of what was found is where the next match may begin.
            for inner in at + length - 2..at + length {
                if inner + MATCH_BYTES_MIN <= input.len() {
                    self.note(input, inner);
                }
            }
            at += length;
            literals = at;
        }
        if out.len() + literal_bytes(input.len() - literals) > end {
            return None;
        }
        put_literals(&input[literals..], out);
        Some(())
    }

    /// Returns how far before `at` the bytes there are found again, and how many.
    fn find(&mut self, input: &[u8], at: usize) -> Option<(usize, usize)> {
        let before = self.note(input, at).checked_sub(self.base + 1)? as usize;
        let distance = at.checked_sub(before).filter(|distance| *distance > 0)?;
        if distance > DISTANCE_MAX {
            return None;
        }
        let most = (input.len() - at).min(MATCH_BYTES_MAX);
        let (old, new) = (&input[before..], &input[at..at + most]);
        let length = common_bytes(old, new);
        (length >= MATCH_BYTES_MIN).then_some((distance, length))
    }

    /// Notes the three bytes at `at` and returns what was noted there.
    fn note(&mut self, input: &[u8], at: usize) -> u32 {
        let word = u32::from_le_bytes([input[at], input[at + 1], input[at + 2], 0]);
        let slot = (word.wrapping_mul(0x9E37_79B1) >> (u32::BITS - TABLE_BITS)) as usize;
        std::mem::replace(&mut self.table[slot], self.base + at as u32 + 1)
    }
}

/// Returns how many bytes `left` and `right` begin with alike.
fn common_bytes(left: &[u8], right: &[u8]) -> usize {
    const WORD_BYTES: usize = size_of::<u64>();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("a chunk is a word"));
    let words = left.chunks_exact(WORD_BYTES).zip(right.chunks_exact(WORD_BYTES));
    let mut length = 0;
    for (left, right) in words {
        let difference = word(left) ^ word(right);
        if difference != 0 {
            return length + difference.trailing_zeros() as usize / 8;
        }
        length += WORD_BYTES;
    }
    let rest = left[length..].iter().zip(&right[length..]);
    length + rest.take_while(|(left, right)| left == right).count()
}

/// Returns the bytes that `count` literal bytes take.
fn literal_bytes(count: usize) -> usize {
    count + count.div_ceil(LITERALS_MAX)
}

fn put_literals(literals: &[u8], out: &mut Vec<u8>) {
    for piece in literals.chunks(LITERALS_MAX) {
        out.push(piece.len() as u8 - 1);
        out.extend_from_slice(piece);
    }
}

fn put_match(distance: usize, length: usize, out: &mut Vec<u8>) {
    let (offset, count) = (distance - 1, length - 2);
    let high = (offset >> 8) as u8;
    match count {
        1..7 => out.push((count as u8) << 5 | high),
        _ => out.extend_from_slice(&[7 << 5 | high, (count - 7) as u8]),
    }
    out.push(offset as u8);
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;

    fn input(random: &mut Prng) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..random.below(40) {
            match random.below(3) {
                0 => bytes.extend((0..random.below(50)).map(|_| random.next() as u8)),
                1 => {
                    let count = random.below(600) as usize;
                    bytes.resize(bytes.len() + count, random.next() as u8);
                }
                _ => {
                    let from = random.below(bytes.len() as u64 + 1) as usize;
                    let count = random.below((bytes.len() - from) as u64 + 1) as usize;
                    bytes.extend_from_within(from..from + count);
                }
            }
            bytes.truncate(30_000);
        }
        bytes
    }

    #[test]
    fn what_is_compressed_is_found_again() {
        let (mut random, mut compressor) = (Prng::new(1), Compressor::default());
        let mut smaller = 0;
        for _ in 0..600 {
            let mut input = input(&mut random);
            input.push(b'.');
            let mut compressed = b"before".to_vec();
            let most = input.len().saturating_sub(4);
            if !compressor.compress(&input, most, &mut compressed) {
                assert_eq!(compressed, b"before");
                continue;
            }
            smaller += 1;
            let compressed = &compressed[6..];
            assert!(compressed.len() <= most && may_be(compressed.len(), input.len()));
            let mut out = b"x".to_vec();
            assert!(decompress(compressed, input.len(), &mut out));
            assert_eq!(out[1..], input);
            for wrong in [input.len() - 1, input.len() + 1] {
                assert!(!decompress(compressed, wrong, &mut out));
            }
            // Alone it gives the same as behind all others.
            let mut again = Vec::new();
            assert!(Compressor::default().compress(&input, most, &mut again));
            assert_eq!(again, compressed);
        }
        assert!(smaller > 300, "{smaller}");
    }

    #[test]
    fn bytes_are_alike_up_to_the_first_that_differ() {
        let right: Vec<u8> = (0..40).collect();
        for (length, room) in (0..=40).flat_map(|length| [(length, 40), (length, length)]) {
            let mut left = right[..room].to_vec();
            if let Some(other) = left.get_mut(length) {
                *other ^= 0x80;
            }
            assert_eq!(common_bytes(&left, &right), length, "{room} bytes");
            assert_eq!(common_bytes(&right, &left), length, "{room} bytes");
        }
    }

    #[test]
    fn positions_beyond_the_word_begin_anew() {
        let mut compressor = Compressor::default();
        let input = b"abcabcabcabcabcabcabcabc".repeat(4);
        let mut first = Vec::new();
        assert!(compressor.compress(&input, 90, &mut first));
        compressor.base = u32::MAX - 10;
        let mut second = Vec::new();
        assert!(compressor.compress(&input, 90, &mut second));
        assert_eq!(first, second);
    }

    #[test]
    fn bytes_of_any_kind_expand_to_so_many_or_not_at_all() {
        let mut random = Prng::new(2);
        let mut expanded = 0;
        for _ in 0..50_000 {
            let bytes: Vec<u8> = (0..random.below(12)).map(|_| random.next() as u8 % 70).collect();
            let length = random.below(60) as usize;
            let mut out = Vec::new();
            let is_done = decompress(&bytes, length, &mut out);
            assert_eq!(out.len(), if is_done { length } else { 0 });
            expanded += u32::from(is_done);
            assert!(!is_done || may_be(bytes.len(), length));
        }
        assert!(expanded > 50, "{expanded}");
    }
}
