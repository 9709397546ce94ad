//! Random numbers of other distributions than the even one.

use base::prng::Prng;

/// Ranks whose chance falls with a power of the rank.
pub(crate) struct Zipf {
    /// For each rank, the chance of it or a lower one.
    sums: Vec<f64>,
}

impl Zipf {
    pub fn new(count: u32, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        });
        let mut sums: Vec<f64> = sums.collect();
        sums.iter_mut().for_each(|one| *one /= sum);
        Zipf { sums }
    }

    /// Returns a rank from 0.
    pub fn draw(&self, random: &mut Prng) -> u32 {
        let chance = unit(random);
        let rank = self.sums.partition_point(|sum| *sum <= chance);
        rank.min(self.sums.len() - 1) as u32
    }
}

/// Returns a number from 0 to 1, without 1.
pub(crate) fn unit(random: &mut Prng) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns a number whose logarithm is normal about that of `median`.
pub(crate) fn log_normal(random: &mut Prng, median: f64, sigma: f64) -> f64 {
    // Box and Muller's transform.
    let (radius, angle) = (1.0 - unit(random), unit(random));
    let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
    median * (sigma * normal).exp()
}
