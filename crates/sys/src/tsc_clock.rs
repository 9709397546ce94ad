//! A clock for short times: the processor's own counter where the kernel trusts it, at half the
//! cost of the steady clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock;

/// Nanoseconds for each tick of the counter, times 2^32; 0 where the counter is not used.
static SCALE: AtomicU64 = AtomicU64::new(0);

/// For how long the counter is compared with the steady clock: a reading that is 50 ns off makes an
/// error of 0.003 %.
const CALIBRATION: Duration = Duration::from_millis(2);
/// How often both clocks are read together; the closest pair counts.
const SAMPLES: usize = 8;

/// Returns the nanoseconds since an arbitrary start, which differs from that of any other clock.
/// Steps back, if at all, only once: when [`calibrate`] is called.
#[inline]
pub fn nanoseconds() -> u64 {
    match SCALE.load(Ordering::Relaxed) {
        0 => clock::monotonic_ns(),
        scale => ((u128::from(ticks()) * u128::from(scale)) >> 32) as u64,
    }
}

/// Finds out how fast the processor's counter is, if the kernel itself tells the time by it: then
/// it is the same on all processors and never changes its rate. Takes two milliseconds.
pub fn calibrate() {
    if !is_trusted() {
        return;
    }
    let (start, end) = (sample(), {
        let end = clock::monotonic_ns() + CALIBRATION.as_nanos() as u64;
        while clock::monotonic_ns() < end {
            std::hint::spin_loop();
        }
        sample()
    });
    let (nanoseconds, ticks) = (end.0.saturating_sub(start.0), end.1.saturating_sub(start.1));
    if ticks > 0 {
        let scale = (u128::from(nanoseconds) << 32) / u128::from(ticks);
        SCALE.store(u64::try_from(scale).unwrap_or(0), Ordering::Relaxed);
    }
}

/// Returns both clocks at about the same moment: (nanoseconds, ticks).
fn sample() -> (u64, u64) {
    let once = |_| {
        let (before, ticks, after) = (clock::monotonic_ns(), ticks(), clock::monotonic_ns());
        (after - before, before.midpoint(after), ticks)
    };
    let (_, nanoseconds, ticks) = (0..SAMPLES).map(once).min().expect("there are samples");
    (nanoseconds, ticks)
}

fn is_trusted() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, and Linux allows it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_as_fast_as_the_steady_clock() {
        calibrate();
        let compare = || {
            let (steady, watch) = (clock::monotonic_ns(), nanoseconds());
            while clock::monotonic_ns() < steady + 5_000_000 {
                std::hint::spin_loop();
            }
            let (watch_end, steady_end) = (nanoseconds(), clock::monotonic_ns());
            assert!(watch_end > watch);
            (watch_end - watch).abs_diff(steady_end - steady)
        };
        // The best of a few: a thread that has to wait between two readings tells nothing.
        let difference = (0..10).map(|_| compare()).min().expect("there are some");
        assert!(difference < 50_000, "{difference} ns in 5 ms");
    }
}
