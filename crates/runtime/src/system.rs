//! The time and the randomness of the system.

use std::io;
use std::time::Duration;

use base::UnixMs;
use engine::Clock;

use crate::environment::Randomness;

/// The clocks of the system. The steady one is the processor's own counter once it is calibrated.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall_us(&self) -> i64 {
        sys::clock::realtime_us()
    }

    fn wall(&self) -> UnixMs {
        sys::clock::realtime()
    }

    fn steady_ns(&self) -> u64 {
        sys::tsc_clock::nanoseconds()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// The kernel's randomness, fit for secrets.
#[derive(Clone, Copy, Debug)]
pub struct SystemRandomness;

impl Randomness for SystemRandomness {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        sys::random::fill(bytes)
    }
}
