//! From registers to a count, to the last digit that of Redis.

use super::REGISTER_COUNT;
use super::dense::REGISTER_MAX;

/// What the estimate needs of all registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tally {
    /// How many are 0.
    pub zeroes: u32,
    /// The sum of 2^-r over those of 1 to 50, and what those of 51 stand for.
    pub sum: f64,
}

/// How many registers there are of each value.
pub(super) type Histogram = [u32; REGISTER_MAX as usize + 1];

/// The registers above 50 are full; above 51 none can be, and none is counted.
const RUN_FULL: usize = super::RUN_MAX as usize;
const COUNT: f64 = REGISTER_COUNT as f64;
/// One divided by twice the logarithm of 2.
const ALPHA: f64 = 0.721_347_520_444_481_7;

impl Tally {
    /// Returns that of registers of which there are so many of each value.
    pub fn of(histogram: &Histogram) -> Tally {
        let full = f64::from(histogram[RUN_FULL]);
        let sum = histogram[1..RUN_FULL]
            .iter()
            .rev()
            .fold(COUNT * tau((COUNT - full) / COUNT), |sum, count| {
                (sum + f64::from(*count)) * 0.5
            });
        Tally { zeroes: histogram[0], sum }
    }
}

/// Returns about how many different elements have given registers of this `tally`.
///
/// Source: Ertl 2017, algorithm 6; Redis, hllCount.
pub(super) fn count(tally: &Tally) -> u64 {
    let sum = tally.sum + COUNT * sigma(f64::from(tally.zeroes) / COUNT);
    let estimate = (ALPHA * COUNT * COUNT / sum).round();
    // More than 64 bits can say is what llroundl makes of it: registers that nobody has counted.
    const LEAST_TOO_MANY: f64 = (1_u64 << 63) as f64;
    if estimate < LEAST_TOO_MANY { estimate as u64 } else { 1 << 63 }
}

/// What empty registers add to the sum, as the limit of a series.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// What full registers add to the sum, as the limit of a series.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
