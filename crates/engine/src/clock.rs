//! The clock from which an instance gets its time.

use std::time::Duration;

use base::UnixMs;

/// The two clocks of one instance. Several instances of one process may have different ones: that
/// of the system, or one that a test moves by hand.
pub trait Clock: Send + Sync {
    /// Returns the wall clock in microseconds since the Unix epoch. It may be set back.
    fn wall_us(&self) -> i64;

    /// Returns the wall clock in milliseconds since the Unix epoch, by which keys expire.
    fn wall(&self) -> UnixMs {
        UnixMs(self.wall_us().div_euclid(1000))
    }

    /// Returns the nanoseconds of a steady clock since an arbitrary start: spans are measured by
    /// it. It steps back once at most, while the process starts.
    fn steady_ns(&self) -> u64;

    /// Lets `duration` pass for the calling thread.
    fn sleep(&self, duration: Duration);
}
