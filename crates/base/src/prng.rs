//! A small deterministic generator (SplitMix64): same seed, same numbers. Not for secrets.

/// A stream of pseudo-random numbers from one seed.
#[derive(Clone, Debug)]
pub struct Prng {
    state: u64,
}

impl Prng {
    /// Returns the stream of `seed`.
    pub fn new(seed: u64) -> Prng {
        Prng { state: seed }
    }

    /// Returns the next 64 bits.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an endless stream has no Option")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Returns a number in `0..bound`.
    ///
    /// # Panics
    /// When `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no number");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true once in `count` calls on average.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}
