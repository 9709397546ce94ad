//! What an entry remembers of its accesses, as the eviction policy needs it.
//!
//! The mark in an entry's header is 32 bits. Under the policies that count accesses its low byte is
//! the counter, and the rest the time of the last access in 64ths of a minute; under all others the
//! whole is that time, in 1024ths. A flag tells the two apart, so that a policy that is chosen at
//! run time interprets a mark of the other form correctly.
//!
//! ```text
//! recency   | 32 ticks of 58.6 ms                  |   2^32 of them are 7.97 years
//! counting  | 24 units of 0.94 s | 8 counter       |   2^24 of them are 182 days
//! ```
//!
//! Times wrap around. A last access that seems to be up to a sixteenth of the range in the future
//! was before the clock was set back, and counts as now; for the rest of the range, seven years and
//! 170 days, a key's age is correct.
//!
//! The counter is that of Redis: logarithmic, it grows at random, the more rarely the larger it is,
//! and loses one for each `lfu-decay-time` minutes without an access. The random numbers come from
//! a generator of the shard, so that one history gives one result.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use arena::AccessMark;
use base::UnixMs;
use base::prng::Prng;

/// Ticks in a minute.
const MINUTE_TICKS: u64 = 1024;
/// Ticks in a unit, the time of the form that counts.
const UNIT_TICKS: u64 = 16;
/// How far a last access may seem to be ahead of now: this share of the range.
const AHEAD_SHARE: u64 = 16;
/// Ticks in so many milliseconds are...
const MS_PER_GROUP: u64 = 1875;
/// ...so many.
const TICKS_PER_GROUP: u64 = 32;
const _: () = assert!(MINUTE_TICKS * MS_PER_GROUP == 60_000 * TICKS_PER_GROUP);

/// The counter of a new key: with none it would go before it could be used again.
const COUNTER_INITIAL: u8 = 5;
/// lfu-log-factor unless told.
const LOG_FACTOR_DEFAULT: u32 = 10;
/// lfu-decay-time unless told.
const DECAY_MINUTES_DEFAULT: u32 = 1;

/// How accesses are tracked in one shard. Anyone may change the rules; the holder of the shard
/// tracks.
#[derive(Debug)]
pub(crate) struct Tracking {
    counts: AtomicBool,
    log_factor: AtomicU32,
    decay_minutes: AtomicU32,
    /// The state of the generator that the counters grow by.
    chance: AtomicU64,
}

impl Default for Tracking {
    fn default() -> Tracking {
        Tracking {
            counts: AtomicBool::new(false),
            log_factor: AtomicU32::new(LOG_FACTOR_DEFAULT),
            decay_minutes: AtomicU32::new(DECAY_MINUTES_DEFAULT),
            chance: AtomicU64::new(0),
        }
    }
}

impl Tracking {
    /// Counts accesses from here on, or only tells when the last one was.
    pub fn set_counts(&self, counts: bool) {
        self.counts.store(counts, Ordering::Relaxed);
    }

    /// Returns whether accesses are counted.
    pub fn does_count(&self) -> bool {
        self.counts.load(Ordering::Relaxed)
    }

    /// Sets how seldom counters grow and how fast they fall; 0 minutes is never.
    pub fn set_rates(&self, log_factor: u32, decay_minutes: u32) {
        self.log_factor.store(log_factor, Ordering::Relaxed);
        self.decay_minutes.store(decay_minutes, Ordering::Relaxed);
    }

    /// Returns the mark of an entry that is new at `now`.
    #[inline]
    pub fn first(&self, now: UnixMs) -> AccessMark {
        match self.does_count() {
            false => AccessMark { word: tick_of(now), counts: false },
            true => counting(now, COUNTER_INITIAL),
        }
    }

    /// Returns the mark of an entry that was used `seconds` before `now`, or as long ago as a mark
    /// can tell; that of a new one where accesses are counted.
    pub fn used_ago(&self, now: UnixMs, seconds: u64) -> AccessMark {
        if self.does_count() {
            return self.first(now);
        }
        let idle = seconds.saturating_mul(MINUTE_TICKS).div_ceil(60);
        let idle = idle.min((1 << 32) - (1 << 32) / AHEAD_SHARE - 1);
        AccessMark { word: ticks(now).wrapping_sub(idle) as u32, counts: false }
    }

    /// Returns the mark of an entry that is used at `now` and has this `counter`; that of a new one
    /// where accesses are not counted.
    pub fn counted(&self, now: UnixMs, counter: u8) -> AccessMark {
        match self.does_count() {
            false => self.first(now),
            true => counting(now, counter),
        }
    }

    /// Returns the mark of an entry with `mark` that is used at `now`. Only the holder of the shard
    /// calls it.
    #[inline]
    pub fn next(&self, mark: AccessMark, now: UnixMs) -> AccessMark {
        match self.does_count() {
            false => AccessMark { word: tick_of(now), counts: false },
            true => counting(now, self.grown(self.counter(mark, now))),
        }
    }

    /// As [`Tracking::next`], after `uses` of them. Only the holder of the shard calls it.
    pub fn next_of(&self, mark: AccessMark, now: UnixMs, uses: u32) -> AccessMark {
        match self.does_count() {
            false => AccessMark { word: tick_of(now), counts: false },
            true => counting(now, self.grown_by(self.counter(mark, now), uses)),
        }
    }

    /// Returns the counter of an entry with `mark`, less what it lost until `now`; that of a new
    /// key where accesses were not counted.
    pub fn counter(&self, mark: AccessMark, now: UnixMs) -> u8 {
        if !mark.counts {
            return COUNTER_INITIAL;
        }
        let counter = mark.word as u8;
        let minutes = ticks(now) / MINUTE_TICKS - last_access(mark, now) / MINUTE_TICKS;
        let minutes = u32::try_from(minutes).unwrap_or(u32::MAX);
        let lost = minutes.checked_div(self.decay_minutes.load(Ordering::Relaxed)).unwrap_or(0);
        counter.saturating_sub(lost.min(255) as u8)
    }

    /// Returns `counter` after one more access.
    fn grown(&self, counter: u8) -> u8 {
        if counter == u8::MAX {
            return counter;
        }
        let one_in = self.accesses_per_growth(counter);
        counter + u8::from(self.draw(|random| random.one_in(one_in)))
    }

    /// Returns `counter` after `accesses` more, with the chances that as many calls of
    /// [`Tracking::grown`] have: it draws when the next growth comes, not whether each access is
    /// one.
    fn grown_by(&self, mut counter: u8, mut accesses: u32) -> u8 {
        while accesses > 0 && counter < u8::MAX {
            let wasted = self.accesses_until_growth(counter);
            if wasted >= f64::from(accesses) {
                break;
            }
            accesses -= wasted as u32 + 1;
            counter += 1;
        }
        counter
    }

    /// Returns how many accesses leave `counter` as it is before one lets it grow, a whole number
    /// of a geometric distribution: k or more with the chance of k misses, `(1 - 1 / n)^k`.
    fn accesses_until_growth(&self, counter: u8) -> f64 {
        let one_in = self.accesses_per_growth(counter);
        if one_in == 1 {
            return 0.0;
        }
        // Above 0 and up to 1, in steps of 2^-53: its logarithm is a number.
        let chance = ((self.draw(Prng::next) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (chance.ln() / (-1.0 / one_in as f64).ln_1p()).floor()
    }

    /// Returns n where one access in n lets `counter` grow, on average.
    fn accesses_per_growth(&self, counter: u8) -> u64 {
        let above = u64::from(counter.saturating_sub(COUNTER_INITIAL));
        above * u64::from(self.log_factor.load(Ordering::Relaxed)) + 1
    }

    /// Returns what `draw` draws from the chances of the shard.
    fn draw<R>(&self, draw: impl FnOnce(&mut Prng) -> R) -> R {
        let mut random = Prng::new(self.chance.load(Ordering::Relaxed));
        let drawn = draw(&mut random);
        self.chance.store(random.rest(), Ordering::Relaxed);
        drawn
    }
}

/// Returns when an entry with `mark` was used last, in ticks since the Unix epoch: the same at any
/// `now`, and never later than that.
pub(crate) fn last_access(mark: AccessMark, now: UnixMs) -> u64 {
    let now = ticks(now);
    let (step, count, last) = match mark.counts {
        false => (1, 1 << 32, u64::from(mark.word)),
        true => (UNIT_TICKS, 1 << 24, u64::from(mark.word >> 8)),
    };
    let now = now / step;
    let idle = now.wrapping_sub(last) % count;
    let is_ahead = idle >= count - count / AHEAD_SHARE;
    now.saturating_sub(if is_ahead { 0 } else { idle }) * step
}

/// Returns for how many seconds an entry with `mark` has not been used.
pub(crate) fn idle_seconds(mark: AccessMark, now: UnixMs) -> u64 {
    (ticks(now) - last_access(mark, now)) * 60 / MINUTE_TICKS
}

fn counting(now: UnixMs, counter: u8) -> AccessMark {
    let unit = ticks(now) / UNIT_TICKS;
    AccessMark { word: (unit << 8) as u32 | u32::from(counter), counts: true }
}

/// Returns the time in ticks, modulo 2^32.
#[inline]
fn tick_of(now: UnixMs) -> u32 {
    ticks(now) as u32
}

/// Returns the time in ticks; 0 for one before the epoch.
#[inline]
fn ticks(now: UnixMs) -> u64 {
    let ms = now.0.max(0) as u64;
    ms / MS_PER_GROUP * TICKS_PER_GROUP + ms % MS_PER_GROUP * TICKS_PER_GROUP / MS_PER_GROUP
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A whole number of minutes.
    const NOW: UnixMs = UnixMs(1_700_000_040_000);
    const MINUTE: i64 = 60_000;
    const DAY: i64 = 24 * 60 * MINUTE;

    fn later(ms: i64) -> UnixMs {
        UnixMs(NOW.0 + ms)
    }

    fn tracking(counts: bool) -> Tracking {
        let tracking = Tracking::default();
        tracking.set_counts(counts);
        tracking
    }

    #[test]
    fn idle_time_is_right_for_years_and_never_negative() {
        for (counts, days) in [(false, 7 * 365), (true, 170)] {
            let mark = tracking(counts).first(NOW);
            for ms in [0, 999, 1000, 61_000, 18 * 60 * MINUTE, 100 * DAY, days * DAY] {
                let tolerance = 1;
                let (found, expected) = (idle_seconds(mark, later(ms)) as i64, ms / 1000);
                assert!((expected - found).abs() <= tolerance, "{found}, not {expected}");
            }
            assert_eq!(idle_seconds(mark, later(-DAY)), 0);
        }
    }

    #[test]
    fn exact_seconds_are_told() {
        let mark = tracking(false).first(NOW);
        for seconds in 0..100 {
            let ms = seconds * 1000;
            assert!([ms / 1000, ms / 1000 - 1].contains(&(idle_seconds(mark, later(ms)) as i64)));
            assert_eq!(idle_seconds(mark, later(ms + 59)), seconds as u64);
        }
    }

    #[test]
    fn counters_grow_ever_more_slowly() {
        let tracking = tracking(true);
        let mut mark = tracking.first(NOW);
        assert_eq!(tracking.counter(mark, NOW), 5);
        let mut at = Vec::new();
        for _ in 0..4 {
            (0..1000).for_each(|_| mark = tracking.next(mark, NOW));
            at.push(tracking.counter(mark, NOW));
        }
        // Redis's table for factor 10: 18 after 1,000 hits.
        assert!((12..=26).contains(&at[0]), "{at:?}");
        assert!(at.is_sorted() && at[3] < 2 * at[0] + 10, "{at:?}");
        tracking.set_rates(0, 1);
        (0..300).for_each(|_| mark = tracking.next(mark, NOW));
        assert_eq!(tracking.counter(mark, NOW), 255);
    }

    /// Returns how often each counter comes of `uses` of an entry with `counter`, in `RUNS` runs.
    fn outcomes(
        counter: u8,
        factor: u32,
        use_all: impl Fn(&Tracking, AccessMark) -> AccessMark,
    ) -> [u32; 256] {
        let tracking = tracking(true);
        tracking.set_rates(factor, 1);
        let mut counts = [0; 256];
        for _ in 0..RUNS {
            let mark = use_all(&tracking, counting(NOW, counter));
            counts[usize::from(tracking.counter(mark, NOW))] += 1;
        }
        counts
    }

    const RUNS: u32 = 20_000;

    #[test]
    fn several_uses_at_once_have_the_chances_of_as_many_one_by_one() {
        for (counter, factor, uses) in [
            (0, 10, 3),
            (0, 10, 64),
            (5, 10, 1),
            (5, 10, 64),
            (5, 1, 64),
            (6, 10, 64),
            (20, 10, 64),
            (100, 10, 64),
            (200, 0, 64),
            (250, 1, 300),
            (255, 10, 64),
            (7, u32::MAX, 64),
        ] {
            let left = outcomes(counter, factor, |rules, mark| rules.next_of(mark, NOW, uses));
            let right = outcomes(counter, factor, |rules, mark| {
                (0..uses).fold(mark, |mark, _| rules.next(mark, NOW))
            });
            // Sums from below differ by more than this once in ten million (Smirnov).
            let allowed = (2.9 * f64::from(2 * RUNS).sqrt()) as i64;
            let mut apart = 0;
            for (index, (left, right)) in left.iter().zip(&right).enumerate() {
                apart += i64::from(*left) - i64::from(*right);
                assert!(apart.abs() <= allowed, "{counter} {factor} {uses} at {index}: {apart}");
            }
        }
    }

    #[test]
    fn several_uses_at_once_cost_a_draw_for_each_growth_and_one_more() {
        for counter in [0, 4, 5, 6, 30, 254, 255] {
            let (tracking, shadow) = (tracking(true), tracking(true));
            let mark = tracking.next_of(counting(NOW, counter), NOW, 64);
            let growths = tracking.counter(mark, NOW) - counter;
            let state = || shadow.chance.load(Ordering::Relaxed);
            let mut draws = 0;
            while state() != tracking.chance.load(Ordering::Relaxed) {
                shadow.draw(Prng::next);
                draws += 1;
            }
            assert!(draws <= u32::from(growths) + 1, "{counter}: {draws} draws, {growths} growths");
        }
    }

    #[test]
    fn counters_fall_by_one_for_each_span_of_minutes() {
        let tracking = tracking(true);
        let mark = counting(NOW, 100);
        for (minutes, expected) in [(0, 100), (1, 99), (99, 1), (100, 0), (10_000, 0)] {
            assert_eq!(tracking.counter(mark, later(minutes * MINUTE)), expected);
        }
        assert_eq!(tracking.counter(mark, later(-MINUTE)), 100, "a clock set back");
        tracking.set_rates(10, 7);
        assert_eq!(tracking.counter(mark, later(20 * MINUTE)), 98);
        tracking.set_rates(10, 0);
        assert_eq!(tracking.counter(mark, later(20 * MINUTE)), 100);
    }

    #[test]
    fn use_every_half_minute_keeps_a_minute_from_counting_twice() {
        let tracking = tracking(true);
        tracking.set_rates(u32::MAX, 1);
        let mut mark = counting(NOW, 50);
        (1..=40).for_each(|step| mark = tracking.next(mark, later(step * MINUTE / 2)));
        assert_eq!(tracking.counter(mark, later(20 * MINUTE)), 30);
    }

    #[test]
    fn marks_of_the_other_form_are_taken_for_what_they_say() {
        let (recency, counting) = (tracking(false), tracking(true));
        let mark = recency.first(NOW);
        assert_eq!(counting.counter(mark, later(DAY)), 5);
        let counted = counting.next(mark, later(DAY));
        assert!(counted.counts && counting.counter(counted, later(DAY)) >= 5);
        assert!(idle_seconds(counted, later(DAY)) <= 1);
        assert!(!recency.next(counted, later(DAY)).counts);
    }
}
