//! What the policy knows of one key: 32 bits, in the entry of a key that is there, in a ghost of
//! one that was evicted.
//!
//! ```text
//! 0  8 slow counter | 8 8 fast counter | 16 16 stamp
//! ```
//! The stamp is the [`Tick`] of the last access. A counter is a sum over the accesses: each counted
//! one when it happened, and is worth half as much each half-life later. The slow counter forgets
//! in 64 turnovers, the fast one in 1. A counter is stored as a logarithm in eighths of an octave,
//! plus 1, as it was at the stamp; 0 is an eighth of an octave less than one access. Each change
//! rounds at random so that the mean is right: a key that is used often would otherwise stop
//! growing.

use crate::logarithm::{self, Log, NOTHING, OCTAVE};

/// Ticks in a turnover: the time in which there are as many requests as the cache has keys.
pub const TICKS_PER_TURNOVER: u32 = 64;
/// The half-life of the slow counter, in octaves of turnovers: 64 of them.
pub const SLOW_HALF_LIFE: Log = 6 * OCTAVE;

/// The time of the policy: ticks, of which a turnover has 64, modulo 2^16. After 1,024 turnovers
/// without an access a key seems to have been used just now; so long a key stays only where nearly
/// nothing is evicted.
pub type Tick = u16;

/// A step of a stored counter, in 256ths of an octave.
const STEP: Log = OCTAVE / 8;
/// What the fast counter loses with each tick: an octave in a turnover.
const FAST_LOSS_PER_TICK: Log = OCTAVE / TICKS_PER_TURNOVER as Log;
/// In so many ticks the slow counter loses a 256th of an octave.
const TICKS_PER_SLOW_LOSS: Tick = 16;
const _: () = assert!(TICKS_PER_SLOW_LOSS as Log * FAST_LOSS_PER_TICK == 64);
/// In so many ticks the counters lose a step.
const TICKS_PER_SLOW_STEP: u64 = STEP as u64 * TICKS_PER_SLOW_LOSS as u64;
const TICKS_PER_FAST_STEP: u64 = (STEP / FAST_LOSS_PER_TICK) as u64;
/// The random bits that rounding what a counter grows to takes. They are as many as a word has
/// beside a counter, so that the counter's bits need not be cut out.
const ROUNDING_BITS: u32 = 24;
/// Growth is known in 65536ths of an octave, of which a step has this many bits.
const GROWTH_BITS: u32 = 13;
const _: () = assert!(STEP << 8 == 1 << GROWTH_BITS);
const _: () = assert!(TICKS_PER_SLOW_STEP == 1 << 9 && TICKS_PER_FAST_STEP == 1 << 3);

/// A key whose fast counter tells of so many accesses, 2^5 in about a turnover, is used so often
/// that one access of [`FREQUENT_SHARE`] tells enough of it.
const FREQUENT: u8 = 5 * 8 + 1;
/// One in so many accesses of such a key counts, for so many.
pub(crate) const FREQUENT_SHARE: u32 = 1 << FREQUENT_SHARE_BITS;
const FREQUENT_SHARE_BITS: u32 = 3;

/// When and how often a key was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u32);

impl Mark {
    /// Returns the mark of a key that was used once, at `now`.
    #[inline]
    pub fn first(now: Tick) -> Mark {
        Mark::new(1, 1, now)
    }

    /// Returns the mark that an entry stores as `word`: any word is one.
    #[inline]
    pub fn from_word(word: u32) -> Mark {
        Mark(word)
    }

    /// Returns the word that an entry stores.
    #[inline]
    pub fn word(self) -> u32 {
        self.0
    }

    pub(crate) fn new(slow: u8, fast: u8, stamp: Tick) -> Mark {
        Mark(u32::from(slow) | u32::from(fast) << 8 | u32::from(stamp) << 16)
    }

    /// Returns the stored counters, slow and fast.
    pub(crate) fn counters(self) -> (u8, u8) {
        (self.0 as u8, (self.0 >> 8) as u8)
    }

    /// Returns when the key was used last.
    #[inline]
    pub fn stamp(self) -> Tick {
        (self.0 >> 16) as Tick
    }

    /// Returns the ticks since the last access.
    #[inline]
    pub fn age(self, now: Tick) -> Tick {
        now.wrapping_sub(self.stamp())
    }

    /// Returns the mark after one more access, at `now`. `random` is a random number whose lower
    /// half may be the less random one.
    ///
    /// Each access passes here: what is left of a counter is rounded to a step at random, too, so
    /// that a table tells what it grows to.
    #[inline]
    pub fn used(self, now: Tick, random: u64) -> Mark {
        // The upper half rounds what has gone, by bits that hardly matter for the slow growth.
        let (slow_steps, fast_steps) = self.steps_lost(now, random);
        let slow = grown(self.0 as u8, slow_steps, (random >> 40) as u32);
        let fast = grown((self.0 >> 8) as u8, fast_steps, random as u32 >> 8);
        Mark(slow | fast << 8 | u32::from(now) << 16)
    }

    /// Returns whether the key is used so often that a part of its accesses tells enough. After a
    /// turnover without one that counted it is not: its next access tells that it is used again.
    #[inline]
    pub(crate) fn is_frequent(self, now: Tick) -> bool {
        (self.0 >> 8) as u8 >= FREQUENT && u32::from(self.age(now)) < TICKS_PER_TURNOVER
    }

    /// Returns the mark after [`FREQUENT_SHARE`] more accesses, at `now`; `random` as of
    /// [`Mark::used`].
    pub(crate) fn used_often(self, now: Tick, random: u64) -> Mark {
        // The sum of a number and 2^n is 2^n times the sum of what is smaller by n octaves and 1.
        const STEPS: u8 = 8 * FREQUENT_SHARE_BITS as u8;
        let (slow_steps, fast_steps) = self.steps_lost(now, random);
        let (slow, fast) = self.counters();
        let less = u64::from(STEPS);
        let slow = grown(slow, slow_steps + less, (random >> 40) as u32) as u8;
        let fast = grown(fast, fast_steps + less, random as u32 >> 8) as u8;
        Mark::new(slow.saturating_add(STEPS), fast.saturating_add(STEPS), now)
    }

    /// Returns the mark of the same accesses with the stamp `now`.
    pub(crate) fn dated(self, now: Tick, random: u64) -> Mark {
        let (slow_steps, fast_steps) = self.steps_lost(now, random);
        let left = |counter: u8, steps: u64| u64::from(counter).saturating_sub(steps) as u8;
        let (slow, fast) = self.counters();
        Mark::new(left(slow, slow_steps), left(fast, fast_steps), now)
    }

    /// Returns how many steps the counters have lost at `now`, slow and fast, rounded at random.
    #[inline(always)]
    fn steps_lost(self, now: Tick, random: u64) -> (u64, u64) {
        let age = u64::from(self.age(now));
        let slow_steps = (age + (random >> 32) % TICKS_PER_SLOW_STEP) / TICKS_PER_SLOW_STEP;
        let fast_steps = (age + (random >> 41) % TICKS_PER_FAST_STEP) / TICKS_PER_FAST_STEP;
        (slow_steps, fast_steps)
    }

    /// Returns the slow counter as it is at `now`: the logarithm of how often the key was used, in
    /// eighths of an octave, plus 1; 0 where that is less than once.
    pub fn frequency(self, now: Tick) -> u8 {
        let steps = self.logs(now).0.div_euclid(STEP) + 1;
        steps.clamp(0, Log::from(u8::MAX)) as u8
    }

    /// Returns the logarithms of both counters at `now`, slow and fast; below 0 for less than one
    /// access.
    #[inline]
    pub(crate) fn logs(self, now: Tick) -> (Log, Log) {
        let age = self.age(now);
        let slow = (self.0 & 0xFF) as Log * STEP - STEP - Log::from(age / TICKS_PER_SLOW_LOSS);
        let fast = (self.0 >> 8 & 0xFF) as Log * STEP - STEP - Log::from(age) * FAST_LOSS_PER_TICK;
        (slow, fast)
    }

    /// Returns the logarithms of how often the key is used in a turnover, by the slow and by the
    /// fast counter. Both are too high by the same factor.
    #[inline]
    pub(crate) fn rates(self, now: Tick) -> (Log, Log) {
        let (slow, fast) = self.logs(now);
        (slow - SLOW_HALF_LIFE, fast)
    }
}

/// Returns the stored `counter` once it has lost so many steps and grown by one access, rounded up
/// with the chance that `random` gives, which has [`ROUNDING_BITS`] bits.
#[inline]
fn grown(counter: u8, steps_lost: u64, random: u32) -> u32 {
    let left = (u64::from(counter) + STEPS_BELOW).saturating_sub(steps_lost);
    (SUMS[left as usize] + random) >> ROUNDING_BITS
}

/// How far below 0 a counter can be before nothing is left of it: 17 octaves.
const STEPS_BELOW: u64 = 17 * 8;
const SUM_COUNT: usize = STEPS_BELOW as usize + u8::MAX as usize + 1;

/// For each counter from [`STEPS_BELOW`] below 0 on, the counter of its sum and 1: in steps with
/// [`ROUNDING_BITS`] bits behind the point. The last one is not more than a counter can be.
const SUMS: [u32; SUM_COUNT] = {
    let mut sums = [0; SUM_COUNT];
    let mut index = 0;
    while index < SUM_COUNT {
        // 1 is one access.
        let steps = index as i32 - STEPS_BELOW as i32 - 1;
        let larger = if steps > 0 { steps as u32 } else { 0 };
        let growth = logarithm::growth_of_eighths(steps.unsigned_abs());
        sums[index] = ((larger + 1) << ROUNDING_BITS) + (growth << (ROUNDING_BITS - GROWTH_BITS));
        index += 1;
    }
    sums
};
const _: () = assert!(SUMS[SUM_COUNT - 1] == (u8::MAX as u32) << ROUNDING_BITS);

const _: () = assert!(NOTHING < -(u16::MAX as Log) * FAST_LOSS_PER_TICK - SLOW_HALF_LIFE);

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;

    fn used(mut mark: Mark, now: Tick, times: u32, random: &mut Prng) -> Mark {
        (0..times).for_each(|_| mark = mark.used(now, random.next()));
        mark
    }

    fn octaves(log: Log) -> f64 {
        f64::from(log) / f64::from(OCTAVE)
    }

    #[test]
    fn a_mark_is_the_word_that_an_entry_stores() {
        let mark = Mark::new(3, 200, 65_000);
        assert_eq!((mark.counters(), mark.stamp()), ((3, 200), 65_000));
        assert_eq!(Mark::from_word(mark.word()), mark);
    }

    #[test]
    fn counters_count_accesses_to_a_tenth_on_average() {
        let random = &mut Prng::new(1);
        for times in [1, 2, 3, 10, 100, 1000, 10_000] {
            let runs = if times < 1000 { 2000 } else { 200 };
            let sum: f64 = (0..runs)
                .map(|_| octaves(used(Mark::first(7), 7, times - 1, random).logs(7).0).exp2())
                .sum();
            let mean = sum / f64::from(runs);
            assert!((mean / f64::from(times) - 1.0).abs() < 0.1, "{times}: {mean}");
        }
    }

    #[test]
    fn what_is_left_of_a_counter_and_one_access_is_right_on_average() {
        let random = &mut Prng::new(4);
        for (counter, age) in [(81, 7), (81, 4), (41, 12), (17, 3), (9, 30), (81, 448), (33, 250)] {
            let (mark, now) = (Mark::new(counter, counter, 65_400), 65_400_u16.wrapping_add(age));
            let (slow, fast) = mark.logs(now);
            const RUNS: u32 = 20_000;
            let (mut slow_sum, mut fast_sum) = (0.0, 0.0);
            for _ in 0..RUNS {
                let (slow, fast) = mark.used(now, random.next()).logs(now);
                (slow_sum, fast_sum) =
                    (slow_sum + octaves(slow).exp2(), fast_sum + octaves(fast).exp2());
            }
            for (sum, log) in [(slow_sum, slow), (fast_sum, fast)] {
                let (mean, expected) = (sum / f64::from(RUNS), octaves(log).exp2() + 1.0);
                assert!(
                    (mean / expected - 1.0).abs() < 0.01,
                    "{counter} {age}: {mean}, {expected}"
                );
            }
        }
    }

    #[test]
    fn several_accesses_at_once_are_right_on_average() {
        let random = &mut Prng::new(6);
        for (counter, age) in [(41, 0), (60, 4), (90, 20), (255, 0)] {
            let (mark, now) = (Mark::new(counter, counter, 65_400), 65_400_u16.wrapping_add(age));
            const RUNS: u32 = 20_000;
            let sum: f64 = (0..RUNS)
                .map(|_| octaves(mark.used_often(now, random.next()).logs(now).1).exp2())
                .sum();
            let full = octaves(Mark::new(255, 255, now).logs(now).1).exp2();
            let expected = octaves(mark.logs(now).1).exp2() + f64::from(FREQUENT_SHARE);
            let ratio = sum / f64::from(RUNS) / expected.min(full);
            assert!((ratio - 1.0).abs() < 0.02, "{counter} {age}: {ratio}");
        }
    }

    #[test]
    fn counters_never_wrap() {
        let random = &mut Prng::new(2);
        for start in [0, 1, 100, 254, 255] {
            let mut mark = Mark::new(start, start, 0);
            for _ in 0..100_000 {
                let next = mark.used(0, random.next());
                let (before, after) = (mark.counters(), next.counters());
                assert!(after.0 >= before.0 && after.1 >= before.1, "{before:?}, {after:?}");
                mark = next;
            }
        }
        // Whatever an entry holds, an access counts: one at least, and what was there but for
        // what is rounded.
        for _ in 0..100_000 {
            let (mark, now) = (Mark::from_word(random.next() as u32), random.next() as Tick);
            let (slow, fast) = mark.logs(now);
            let next = mark.used(now, random.next());
            let (slow_next, fast_next) = next.logs(now);
            assert!(slow_next >= 0 && fast_next >= 0);
            assert!(slow_next > slow - 2 * STEP && fast_next > fast - 2 * STEP);
            assert_eq!(next.age(now), 0);
        }
    }

    #[test]
    fn each_half_life_halves_its_counter() {
        let mark = Mark::new(81, 81, 65_500);
        let turnover = TICKS_PER_TURNOVER as Tick;
        let at = |turnovers: Tick| mark.logs(65_500_u16.wrapping_add(turnovers * turnover));
        assert_eq!(at(0), (10 * OCTAVE, 10 * OCTAVE));
        assert_eq!(at(1).1, 9 * OCTAVE);
        assert_eq!(at(64), (9 * OCTAVE, -54 * OCTAVE));
        assert_eq!(at(640).0, 0);
    }

    #[test]
    fn rates_agree_where_a_key_is_used_evenly() {
        let random = &mut Prng::new(3);
        let mut mark = Mark::first(0);
        // Four times a turnover, for long enough that the slow counter has settled.
        for step in 0..4 * 64 * 12_u32 {
            mark = mark.used((step * 16) as Tick, random.next());
        }
        let (slow, fast) = mark.rates(mark.stamp());
        assert!((slow - fast).abs() < OCTAVE / 2, "{slow} {fast}");
        assert!((octaves(fast).exp2() / (4.0 / 2_f64.ln()) - 1.0).abs() < 0.4, "{fast}");
    }
}
