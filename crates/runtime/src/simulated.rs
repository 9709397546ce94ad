//! A clock that stands still until it is advanced, and randomness from one seed.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base::UnixMs;
use base::prng::Prng;
use engine::Clock;

use crate::environment::Randomness;

/// Two clocks that stand still until they are moved. Sleeping moves them.
#[derive(Debug)]
pub struct ManualClock {
    wall_us: AtomicI64,
    steady_ns: AtomicU64,
}

impl ManualClock {
    /// Returns clocks of which the wall clock shows `wall`, the steady one 0.
    pub fn new(wall: UnixMs) -> ManualClock {
        ManualClock { wall_us: AtomicI64::new(wall.0 * 1000), steady_ns: AtomicU64::new(0) }
    }

    /// Moves both clocks on.
    pub fn advance(&self, duration: Duration) {
        self.wall_us.fetch_add(duration.as_micros() as i64, Ordering::Relaxed);
        self.steady_ns.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Sets the wall clock, forward or back; the steady one goes on as it was.
    pub fn set_wall(&self, wall: UnixMs) {
        self.wall_us.store(wall.0 * 1000, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn wall_us(&self) -> i64 {
        self.wall_us.load(Ordering::Relaxed)
    }

    fn steady_ns(&self) -> u64 {
        self.steady_ns.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

/// Randomness that one seed decides. Not for secrets.
#[derive(Debug)]
pub struct SeededRandomness(Mutex<Prng>);

impl SeededRandomness {
    /// Returns the randomness of `seed`.
    pub fn new(seed: u64) -> SeededRandomness {
        SeededRandomness(Mutex::new(Prng::new(seed)))
    }
}

impl Randomness for SeededRandomness {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        // A generator is whole between any two steps, even if a holder panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
        Ok(())
    }
}
