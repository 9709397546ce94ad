//! Which keys a load touches: their text and how often each comes.

use std::str::FromStr;

use anyhow::{Context, bail};
use base::prng::Prng;

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyDistribution {
    /// Each key as often as any other.
    Uniform,
    /// The key of rank r with a weight of 1 / r^exponent; key 0 has rank 1.
    Zipf {
        /// 0 is uniform; 0.99 to 1.2 is what caches see.
        exponent: f64,
    },
    /// Each key once, in order: for loading.
    Sequential,
}

impl FromStr for KeyDistribution {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<KeyDistribution> {
        if let Some(exponent) = text.strip_prefix("zipf:") {
            let exponent: f64 = exponent.parse().context("the exponent after 'zipf:'")?;
            if !(0.0..=10.0).contains(&exponent) {
                bail!("the exponent of a Zipf distribution is between 0 and 10");
            }
            return Ok(KeyDistribution::Zipf { exponent });
        }
        match text {
            "uniform" => Ok(KeyDistribution::Uniform),
            "sequential" => Ok(KeyDistribution::Sequential),
            _ => bail!("'{text}' is none of uniform, sequential and zipf:<exponent>"),
        }
    }
}

/// Chooses keys of `0..key_count`.
#[derive(Clone, Debug)]
pub struct KeyChooser {
    key_count: u64,
    prng: Prng,
    rule: Rule,
}

#[derive(Clone, Debug)]
enum Rule {
    Uniform,
    Zipf(Zipf),
    /// The next key.
    Sequential(u64),
}

impl KeyChooser {
    /// Returns the chooser of one thread. `first` is where a sequential one begins.
    pub fn new(distribution: KeyDistribution, key_count: u64, first: u64, seed: u64) -> KeyChooser {
        assert!(key_count > 0, "a load has keys");
        let rule = match distribution {
            KeyDistribution::Uniform => Rule::Uniform,
            KeyDistribution::Zipf { exponent } => Rule::Zipf(Zipf::new(key_count, exponent)),
            KeyDistribution::Sequential => Rule::Sequential(first),
        };
        KeyChooser { key_count, prng: Prng::new(seed), rule }
    }

    /// Returns the next key's index.
    #[inline]
    pub fn next_index(&mut self) -> u64 {
        match &mut self.rule {
            Rule::Uniform => self.prng.below(self.key_count),
            Rule::Zipf(zipf) => zipf.rank(&mut self.prng) - 1,
            Rule::Sequential(next) => {
                let index = *next % self.key_count;
                *next += 1;
                index
            }
        }
    }

    /// Returns true in `percent` of 100 calls.
    #[inline]
    pub fn chance(&mut self, percent: u64) -> bool {
        self.prng.below(100) < percent
    }
}

/// Zipf ranks by rejection-inversion (Hoermann and Derflinger 1996, "Rejection-inversion to
/// generate variates from monotone discrete distributions"): no table, any exponent.
#[derive(Clone, Debug)]
struct Zipf {
    rank_max: f64,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    accept_below: f64,
}

impl Zipf {
    fn new(rank_max: u64, exponent: f64) -> Zipf {
        let rank_max = rank_max as f64;
        let mut zipf =
            Zipf { rank_max, exponent, integral_first: 0.0, integral_last: 0.0, accept_below: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(rank_max + 0.5);
        zipf.accept_below = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn rank(&self, prng: &mut Prng) -> u64 {
        loop {
            let fraction = (prng.next() >> 11) as f64 / (1u64 << 53) as f64;
            let area = self.integral_last + fraction * (self.integral_first - self.integral_last);
            let position = self.integral_inverse(area);
            let rank = position.round().clamp(1.0, self.rank_max);
            if rank - position <= self.accept_below
                || area >= self.integral(rank + 0.5) - self.weight(rank)
            {
                return rank as u64;
            }
        }
    }

    /// x^-exponent.
    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the weight from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let scaled = (1.0 - self.exponent) * log;
        // (e^t - 1) / t, which is 1 where t vanishes.
        let growth =
            if scaled.abs() > 1e-8 { scaled.exp_m1() / scaled } else { 1.0 + scaled / 2.0 };
        growth * log
    }

    fn integral_inverse(&self, area: f64) -> f64 {
        let scaled = (area * (1.0 - self.exponent)).max(-1.0);
        let growth = if scaled.abs() > 1e-8 { scaled.ln_1p() / scaled } else { 1.0 - scaled / 2.0 };
        (growth * area).exp()
    }
}

/// Writes `index` in decimal with leading zeros over all of `digits`.
#[inline]
pub fn write_digits(mut index: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (index % 10) as u8;
        index /= 10;
    }
    debug_assert!(index == 0, "the key is long enough for its number");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_padded() {
        let mut digits = [0; 6];
        write_digits(1234, &mut digits);
        assert_eq!(&digits, b"001234");
    }

    #[test]
    fn sequential_keys_come_once_each() {
        let mut keys = KeyChooser::new(KeyDistribution::Sequential, 10, 5, 0);
        let found: Vec<u64> = (0..7).map(|_| keys.next_index()).collect();
        assert_eq!(found, [5, 6, 7, 8, 9, 0, 1]);
    }

    const DRAWS: usize = 400_000;

    fn shares(distribution: KeyDistribution) -> Vec<f64> {
        let mut keys = KeyChooser::new(distribution, 100, 0, 1);
        let mut counts = vec![0.0; 100];
        (0..DRAWS).for_each(|_| counts[keys.next_index() as usize] += 1.0 / DRAWS as f64);
        counts
    }

    #[test]
    fn uniform_keys_are_uniform() {
        for share in shares(KeyDistribution::Uniform) {
            assert!((share - 0.01).abs() < 0.001, "share {share}");
        }
    }

    #[test]
    fn zipf_keys_have_their_weights() {
        for exponent in [0.0, 0.7, 1.0, 1.3] {
            let weights: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-exponent)).collect();
            let total: f64 = weights.iter().sum();
            for (rank, share) in shares(KeyDistribution::Zipf { exponent }).into_iter().enumerate()
            {
                let expected = weights[rank] / total;
                // Five standard deviations.
                let tolerance = 5.0 * (expected / DRAWS as f64).sqrt();
                assert!(
                    (share - expected).abs() < tolerance,
                    "{exponent} {rank} {share} {expected}"
                );
            }
        }
    }

    #[test]
    fn distributions_are_read() {
        assert_eq!(
            "zipf:0.99".parse::<KeyDistribution>().unwrap(),
            KeyDistribution::Zipf { exponent: 0.99 }
        );
        assert_eq!("uniform".parse::<KeyDistribution>().unwrap(), KeyDistribution::Uniform);
        for text in ["zipf", "zipf:-1", "zipf:x", "normal"] {
            assert!(text.parse::<KeyDistribution>().is_err(), "{text}");
        }
    }
}
