//! Which times of commands the server wants to know; that may change at any moment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Below this report limit every command is timed by itself, in nanoseconds: within a stretch of
/// brief ones a slow one could hide.
const CLOSE_BELOW: u64 = 1_000_000;

/// Limits that one thread sets and every worker reads.
#[derive(Debug)]
pub struct Watch {
    reported_from: AtomicU64,
    is_tracking: AtomicBool,
}

impl Watch {
    /// Returns a watch that reports nothing and keeps the distribution of times.
    pub const fn new() -> Watch {
        Watch { reported_from: AtomicU64::new(u64::MAX), is_tracking: AtomicBool::new(true) }
    }

    /// Sets from how many nanoseconds on a command is reported to the host, and whether the
    /// distribution of times is kept.
    pub fn set(&self, reported_from: u64, is_tracking: bool) {
        self.reported_from.store(reported_from, Ordering::Relaxed);
        self.is_tracking.store(is_tracking, Ordering::Relaxed);
    }

    /// Returns from how many nanoseconds on a command is reported; `u64::MAX` is never.
    #[inline]
    pub fn reported_from(&self) -> u64 {
        self.reported_from.load(Ordering::Relaxed)
    }

    /// Returns whether the distribution of times is kept.
    #[inline]
    pub fn is_tracking(&self) -> bool {
        self.is_tracking.load(Ordering::Relaxed)
    }

    /// Returns whether every command is to be timed by itself.
    #[inline]
    pub fn is_close(&self) -> bool {
        self.reported_from() < CLOSE_BELOW
    }
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}
