//! Statistics of the sweeper: how many keys it examined and removed, and how long memory was above
//! its limit.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// How much the last round weighs in the share of stale keys; those before have the rest.
const LATEST_WEIGHT: f64 = 0.05;

/// The looks for expired keys.
#[derive(Debug, Default)]
pub struct SweepStats {
    counts: Mutex<SweepCounts>,
}

/// What the looks came to since the counters were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SweepCounts {
    /// About so many percent of the keys with a time to live have expired and are still there.
    pub stale_percent: f64,
    /// Rounds that ended because their time was used up.
    pub time_cap_reached: u64,
    /// The time that all rounds took.
    pub milliseconds: u64,
    microseconds_left: u64,
}

impl SweepStats {
    /// Notes a round that looked at `examined` keys, removed `expired` of them and took `time`.
    pub fn note(&self, examined: u64, expired: u64, time: Duration, is_cut_short: bool) {
        let mut counts = self.lock();
        if examined > 0 {
            let percent = expired as f64 / examined as f64 * 100.0;
            counts.stale_percent =
                percent * LATEST_WEIGHT + counts.stale_percent * (1.0 - LATEST_WEIGHT);
        }
        counts.time_cap_reached += u64::from(is_cut_short);
        let microseconds = counts.microseconds_left + time.as_micros() as u64;
        counts.milliseconds += microseconds / 1000;
        counts.microseconds_left = microseconds % 1000;
    }

    /// Returns the counts.
    pub fn counts(&self) -> SweepCounts {
        *self.lock()
    }

    /// Starts anew.
    pub fn reset(&self) {
        *self.lock() = SweepCounts::default();
    }

    fn lock(&self) -> MutexGuard<'_, SweepCounts> {
        self.counts.lock().expect("no holder of the sweep's counts panics")
    }
}

/// The time that memory was above its limit, as far as the rounds saw.
#[derive(Debug, Default)]
pub struct OverLimit {
    state: Mutex<OverLimitState>,
}

#[derive(Debug, Default)]
struct OverLimitState {
    total: Duration,
    since: Option<Duration>,
}

/// How long memory was above its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverLimitDurations {
    /// Since the counters were reset.
    pub total: Duration,
    /// Since it went above the last time, zero where it is not.
    pub current: Duration,
}

impl OverLimit {
    /// Notes whether memory is above its limit at `now`.
    pub fn note(&self, is_over: bool, now: Duration) {
        let mut state = self.lock();
        match (is_over, state.since) {
            (true, None) => state.since = Some(now),
            (false, Some(since)) => {
                state.total += now.saturating_sub(since);
                state.since = None;
            }
            _ => {}
        }
    }

    /// Returns the durations as of `now`.
    pub fn durations(&self, now: Duration) -> OverLimitDurations {
        let state = self.lock();
        let current = state.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        OverLimitDurations { total: state.total + current, current }
    }

    /// Starts anew at `now`.
    pub fn reset(&self, now: Duration) {
        let mut state = self.lock();
        *state = OverLimitState { total: Duration::ZERO, since: state.since.map(|_| now) };
    }

    fn lock(&self) -> MutexGuard<'_, OverLimitState> {
        self.state.lock().expect("no holder of the time above the limit panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn time_above_the_limit_adds_up() {
        let over = OverLimit::default();
        let check = |now, total, current| {
            let expected = OverLimitDurations { total: s(total), current: s(current) };
            assert_eq!(over.durations(s(now)), expected, "at {now}");
        };
        over.note(true, s(10));
        over.note(true, s(11));
        check(12, 2, 2);
        over.note(false, s(13));
        check(20, 3, 0);
        over.note(true, s(21));
        check(22, 4, 1);
        over.reset(s(25));
        check(26, 1, 1);
    }

    #[test]
    fn stale_keys_are_an_average_of_rounds() {
        let sweep = SweepStats::default();
        sweep.note(0, 0, Duration::from_micros(900), false);
        assert_eq!(sweep.counts().stale_percent, 0.0);
        for _ in 0..200 {
            sweep.note(10, 5, Duration::from_micros(900), true);
        }
        let counts = sweep.counts();
        assert!((49.0..=50.0).contains(&counts.stale_percent), "{counts:?}");
        assert_eq!((counts.time_cap_reached, counts.milliseconds), (200, 180));
        sweep.reset();
        assert_eq!(sweep.counts(), SweepCounts::default());
    }
}
