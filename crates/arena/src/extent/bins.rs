//! Holes by size: 32 bins to each power of two, each a list, with a bit for each that is not empty.
//!
//! The lists run through the tiles' own records, so that adding, removing and finding take no
//! memory of their own and do not depend on how many holes there are.

/// The bins of each power of two, as a power of two: a bin's sizes differ by 3 %.
const STEPS_LOG2: u32 = 5;
/// Sizes are below 2^48.
pub(super) const BIN_COUNT: usize = 48 << STEPS_LOG2;
const WORD_COUNT: usize = BIN_COUNT / 64;
/// No record.
pub(super) const NONE: u32 = u32::MAX;

const _: () = assert!(BIN_COUNT.is_multiple_of(64) && WORD_COUNT <= 64);

/// The heads of the lists and which are not empty.
pub(super) struct Bins {
    heads: Vec<u32>,
    filled: [u64; WORD_COUNT],
    /// Which words of `filled` are not zero.
    summary: u64,
}

impl Bins {
    pub fn new() -> Bins {
        Bins { heads: vec![NONE; BIN_COUNT], filled: [0; WORD_COUNT], summary: 0 }
    }

    /// Returns the bytes of private memory.
    pub fn private_bytes(&self) -> u64 {
        (self.heads.capacity() * size_of::<u32>()) as u64
    }

    /// Returns the first record of `bin`, or [`NONE`].
    pub fn head(&self, bin: usize) -> u32 {
        self.heads[bin]
    }

    /// Makes `record` the first of `bin`.
    pub fn set_head(&mut self, bin: usize, record: u32) {
        self.heads[bin] = record;
        let (word, bit) = (bin / 64, 1 << (bin % 64));
        if record == NONE {
            self.filled[word] &= !bit;
        } else {
            self.filled[word] |= bit;
        }
        if self.filled[word] == 0 {
            self.summary &= !(1 << word);
        } else {
            self.summary |= 1 << word;
        }
    }

    /// Returns the lowest bin from `bin` on that is not empty.
    pub fn filled_from(&self, bin: usize) -> Option<usize> {
        let word = bin / 64;
        if word >= WORD_COUNT {
            return None;
        }
        let rest = self.filled[word] & (u64::MAX << (bin % 64));
        if rest != 0 {
            return Some(word * 64 + rest.trailing_zeros() as usize);
        }
        let words = self.summary & (u64::MAX << word) & !(1 << word);
        let word = (words != 0).then(|| words.trailing_zeros() as usize)?;
        Some(word * 64 + self.filled[word].trailing_zeros() as usize)
    }

    /// Returns the highest bin that is not empty.
    pub fn last(&self) -> Option<usize> {
        let word = self.summary.checked_ilog2()? as usize;
        Some(word * 64 + self.filled[word].ilog2() as usize)
    }
}

/// Returns the bin of holes of `bytes`.
pub(super) fn bin_of(bytes: u64) -> usize {
    let log2 = bytes.ilog2();
    debug_assert!((STEPS_LOG2..48).contains(&log2), "a hole of {bytes} bytes");
    let step = (bytes >> (log2 - STEPS_LOG2)) & ((1 << STEPS_LOG2) - 1);
    ((u64::from(log2) << STEPS_LOG2) + step) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_ascend_with_the_size() {
        let mut last = 0;
        for bytes in (64..100_000).chain([1 << 30, (1 << 48) - 1]) {
            let bin = bin_of(bytes);
            assert!(bin >= last && bin < BIN_COUNT, "{bytes} bytes are in bin {bin}");
            last = bin;
        }
    }

    #[test]
    fn the_next_filled_bin_is_found_across_words() {
        let mut bins = Bins::new();
        assert_eq!((bins.filled_from(0), bins.last()), (None, None));
        for bin in [192, 200, 255, 256, 1000, BIN_COUNT - 1] {
            bins.set_head(bin, 7);
        }
        let found = |from| bins.filled_from(from);
        assert_eq!([found(0), found(193), found(201)], [Some(192), Some(200), Some(255)]);
        assert_eq!([found(256), found(257), found(1001)], [Some(256), Some(1000), Some(1535)]);
        assert_eq!((found(BIN_COUNT), bins.last()), (None, Some(BIN_COUNT - 1)));
        bins.set_head(BIN_COUNT - 1, NONE);
        bins.set_head(1000, NONE);
        assert_eq!((bins.filled_from(257), bins.last()), (None, Some(256)));
    }
}
