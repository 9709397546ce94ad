//! Which times of commands the server wants to know; that may change at any moment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Below this report limit every command is timed by itself, in nanoseconds: within a stretch of
/// brief ones a slow one could hide.
const TIME_EACH_BELOW_NS: u64 = 1_000_000;

/// Limits that one thread sets and every worker reads.
#[derive(Debug)]
pub struct TimingSettings {
    report_threshold_ns: AtomicU64,
    is_tracking: AtomicBool,
}

impl TimingSettings {
    /// Returns settings that report nothing and keep the distribution of times.
    pub const fn new() -> TimingSettings {
        TimingSettings {
            report_threshold_ns: AtomicU64::new(u64::MAX),
            is_tracking: AtomicBool::new(true),
        }
    }

    /// Sets from how many nanoseconds on a command is reported to the host, and whether the
    /// distribution of times is kept.
    pub fn set(&self, report_threshold_ns: u64, is_tracking: bool) {
        self.report_threshold_ns.store(report_threshold_ns, Ordering::Relaxed);
        self.is_tracking.store(is_tracking, Ordering::Relaxed);
    }

    /// Returns from how many nanoseconds on a command is reported; `u64::MAX` is never.
    #[inline]
    pub fn report_threshold_ns(&self) -> u64 {
        self.report_threshold_ns.load(Ordering::Relaxed)
    }

    /// Returns whether the distribution of times is kept.
    #[inline]
    pub fn is_tracking(&self) -> bool {
        self.is_tracking.load(Ordering::Relaxed)
    }

    /// Returns whether every command is to be timed by itself.
    #[inline]
    pub fn times_each_command(&self) -> bool {
        self.report_threshold_ns() < TIME_EACH_BELOW_NS
    }
}

impl Default for TimingSettings {
    fn default() -> TimingSettings {
        TimingSettings::new()
    }
}
