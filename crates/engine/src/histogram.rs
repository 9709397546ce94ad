//! How long a command takes: a histogram with one writer, and the statistics that readers compute
//! from it.
//!
//! Times below 256 ns have a bucket each; above, each doubling has 128 buckets, so that a bucket is
//! at most 1/128 of its times wide. These are the buckets that Redis uses (an HDR histogram of two
//! digits), so that figures of both compare. The buckets of a doubling take memory from the first
//! time in them on: most commands take times of a few doublings, and each worker counts its own.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longer times count as this one, in nanoseconds.
pub const NANOSECONDS_MAX: u64 = 1_000_000_000;

/// The buckets of one doubling, as a power of two.
const HALF_BITS: u32 = 7;
const HALF: usize = 1 << HALF_BITS;
const BUCKET_COUNT: usize = bucket_of(NANOSECONDS_MAX) + 1;
/// Parts of as many buckets as a doubling has; the first two are those of 1 ns.
const PART_COUNT: usize = BUCKET_COUNT.div_ceil(HALF);

/// The least time that [`Distribution::doublings`] tells apart, in nanoseconds.
const DOUBLING_MIN: u64 = 1024;

/// The times of one command, counted by one thread and read by any.
#[derive(Default)]
pub struct Histogram {
    parts: [OnceLock<Box<[AtomicU64; HALF]>>; PART_COUNT],
}

impl Histogram {
    /// What a histogram of nothing takes, in bytes.
    pub const EMPTY_BYTES: u64 = size_of::<Histogram>() as u64;

    /// What the buckets of one doubling take, in bytes.
    pub const PART_BYTES: u64 = size_of::<[AtomicU64; HALF]>() as u64;

    /// Counts `times` calls that took `nanoseconds` each; returns whether that took
    /// [`Self::PART_BYTES`] of memory. For the one thread that owns it.
    #[inline]
    pub fn record(&self, nanoseconds: u64, times: u64) -> bool {
        let bucket = bucket_of(nanoseconds.min(NANOSECONDS_MAX));
        let part = &self.parts[bucket / HALF];
        let mut grows = false;
        let counts = part.get_or_init(|| {
            grows = true;
            Box::new([const { AtomicU64::new(0) }; HALF])
        });
        let count = &counts[bucket % HALF];
        // One writer: a load and a store, where an atomic addition would lock the cache line.
        count.store(count.load(Ordering::Relaxed).wrapping_add(times), Ordering::Relaxed);
        grows
    }
}

/// The counts of one histogram or several at one moment.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// Calls by bucket, of the parts that have any, by their index.
    parts: BTreeMap<usize, Box<[u64; HALF]>>,
}

impl Distribution {
    /// Adds what `histogram` has counted.
    pub fn add(&mut self, histogram: &Histogram) {
        let counted = histogram.parts.iter().map(OnceLock::get).enumerate();
        for (index, counts) in counted.filter_map(|(index, counts)| Some((index, counts?))) {
            let sums = self.parts.entry(index).or_insert_with(|| Box::new([0; HALF]));
            for (sum, count) in sums.iter_mut().zip(&**counts) {
                *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
            }
        }
    }

    /// Takes away what was counted before, as `earlier` says.
    pub fn subtract(&mut self, earlier: &Distribution) {
        for (index, before) in &earlier.parts {
            let counts = self.parts.entry(*index).or_insert_with(|| Box::new([0; HALF]));
            for (count, before) in counts.iter_mut().zip(&**before) {
                *count = count.wrapping_sub(*before);
            }
        }
    }

    /// Returns the number of calls.
    pub fn total(&self) -> u64 {
        self.parts.values().flat_map(|counts| counts.iter()).sum()
    }

    /// Returns the time that `percent` of the calls, at least one, did not exceed, as the upper
    /// bound of its bucket in nanoseconds; 0 where there are no calls.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = (percent.min(100.0) / 100.0 * self.total() as f64 + 0.5) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts() {
            seen += count;
            if seen >= rank.max(1) {
                return highest_of(bucket);
            }
        }
        0
    }

    /// Returns upper bounds, each about twice the one before, with the calls that took at most so
    /// long, without those bounds that bring no call: (nanoseconds, calls).
    pub fn doublings(&self) -> Vec<(u64, u64)> {
        let mut steps = Vec::new();
        let (mut seen, mut shown, mut bound) = (0, 0, DOUBLING_MIN);
        let total = self.total();
        for (bucket, count) in self.counts() {
            seen += count;
            if bucket != bucket_of(bound) {
                continue;
            }
            if seen > shown {
                steps.push((highest_of(bucket), seen));
                shown = seen;
            }
            if seen == total {
                return steps;
            }
            bound *= 2;
        }
        if seen > shown {
            steps.push((highest_of(bucket_of(bound)), seen));
        }
        steps
    }

    /// Returns all buckets with their calls, in order.
    fn counts(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..PART_COUNT).flat_map(move |part| {
            let counts = self.parts.get(&part);
            (0..HALF).map(move |at| (part * HALF + at, counts.map_or(0, |counts| counts[at])))
        })
    }
}

const fn bucket_of(nanoseconds: u64) -> usize {
    // The doubling: 0 up to 255 ns.
    let shift = u64::BITS - HALF_BITS - 1 - (nanoseconds | 0xff).leading_zeros();
    ((shift as usize) << HALF_BITS) + (nanoseconds >> shift) as usize
}

/// Returns the longest time of a bucket.
const fn highest_of(bucket: usize) -> u64 {
    let shift = (bucket >> HALF_BITS).saturating_sub(1);
    let part = bucket - (shift << HALF_BITS);
    ((part as u64 + 1) << shift) - 1
}

const _: () = assert!(bucket_of(255) == 255 && bucket_of(256) == 256 && bucket_of(258) == 257);
const _: () = assert!(highest_of(255) == 255 && highest_of(256) == 257 && HALF == 128);

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;

    fn distribution(times: &[u64]) -> Distribution {
        let histogram = Histogram::default();
        let grown = times.iter().filter(|time| histogram.record(**time, 1)).count();
        assert_eq!(grown, histogram.parts.iter().filter(|part| part.get().is_some()).count());
        let mut distribution = Distribution::default();
        distribution.add(&histogram);
        distribution
    }

    #[test]
    fn every_time_lies_in_its_bucket_and_buckets_are_narrow() {
        let mut random = Prng::new(1);
        for _ in 0..100_000 {
            let time = random.next() >> 34 >> random.below(30);
            let bucket = bucket_of(time);
            let lowest = bucket.checked_sub(1).map_or(0, |before| highest_of(before) + 1);
            assert!((lowest..=highest_of(bucket)).contains(&time), "{time}");
            assert!(highest_of(bucket) - lowest <= time / 128, "{time}");
        }
    }

    #[test]
    fn percentiles_are_the_exact_ones_within_a_bucket() {
        let mut random = Prng::new(2);
        for seed in 0..200 {
            let count = 1 + random.below(500) as usize;
            let shift = random.below(30);
            let mut times: Vec<u64> =
                (0..count).map(|_| 1 + (random.next() >> 34 >> shift)).collect();
            let found = distribution(&times);
            times.sort_unstable();
            for percent in [0.0, 0.1, 25.0, 50.0, 99.0, 99.9, 100.0] {
                let rank = (percent / 100.0 * count as f64 + 0.5) as usize;
                let exact = times[rank.clamp(1, count) - 1].min(NANOSECONDS_MAX);
                let shown = found.percentile(percent);
                assert_eq!(shown, highest_of(bucket_of(exact)), "round {seed}, {percent} %");
                assert!(shown >= exact && shown - exact <= exact / 128);
            }
        }
    }

    #[test]
    fn doublings_count_all_calls_up_to_their_bounds() {
        let found = distribution(&[1, 1031, 1032, 40_000, 40_001, 999_999_999, u64::MAX]);
        let expected = [(1031, 2), (2063, 3), (66_047, 5), (1_082_130_431, 7)];
        assert_eq!(found.doublings(), expected);
        assert_eq!(distribution(&[]).doublings(), []);
        assert_eq!(Distribution::default().percentile(50.0), 0);
    }

    #[test]
    fn what_was_counted_before_can_be_taken_away() {
        let mut later = distribution(&[5, 5, 70_000]);
        later.subtract(&distribution(&[5]));
        assert!(later.counts().eq(distribution(&[5, 70_000]).counts()));
        assert_eq!(later.total(), 2);
        later.subtract(&distribution(&[70_000]));
        assert!(later.counts().eq(distribution(&[5]).counts()));
    }
}
