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

    /// Returns the seed of what is left of the stream.
    pub fn rest(&self) -> u64 {
        self.state
    }

    /// Returns the next 64 bits.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an endless stream has no Option")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
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

    /// Returns one of `options`, each as likely as any other.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len() as u64) as usize]
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// Returns `word` mixed, so that every bit of it reaches every bit of the result; no two words have
/// the same result. It is SplitMix64's finaliser.
#[inline]
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_seed_are_those_of_splitmix64() {
        let mut random = Prng::new(1_234_567);
        // From Vigna's splitmix64.c.
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([random.next(), random.next()], expected);
        let mut rest = Prng::new(random.rest());
        assert_eq!(rest.next(), random.next());
    }
}
