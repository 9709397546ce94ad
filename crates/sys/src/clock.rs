//! Clocks: the wall clock in milliseconds, the steady clock, processor time, and local dates.

use std::io;
use std::time::Duration;

use base::UnixMs;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the wall-clock time; no system call (vDSO).
#[inline]
pub fn realtime() -> UnixMs {
    let now = clock_gettime(ClockId::Realtime);
    UnixMs(now.tv_sec * 1000 + now.tv_nsec / 1_000_000)
}

/// Returns the wall-clock time in microseconds since the Unix epoch; no system call (vDSO).
pub fn realtime_us() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

/// Returns the nanoseconds since an arbitrary start that never steps back; no system call (vDSO).
#[inline]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the time since an arbitrary start that never steps back; no system call (vDSO).
#[inline]
pub fn monotonic() -> Duration {
    duration(clock_gettime(ClockId::Monotonic))
}

/// Returns the processor time that the calling thread has used.
pub fn thread_cpu() -> Duration {
    duration(clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns the processor time that all threads of this process have used.
pub fn process_cpu() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

/// Returns the processor time that all threads of process `id` have used, those that have ended
/// too.
///
/// # Errors
/// When there is no such process, or it may not be looked at.
pub fn cpu_of(id: u32) -> io::Result<Duration> {
    let id = libc::pid_t::try_from(id).map_err(|_| io::ErrorKind::NotFound)?;
    let mut clock = 0;
    // SAFETY: `clock` is a place for the one number that is written.
    match unsafe { libc::clock_getcpuclockid(id, &raw mut clock) } {
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a place for what is written.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32)),
        _ => Err(io::Error::last_os_error()),
    }
}

fn duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns year, month and day of the month of the day that is `days` after 1 January 1970, in the
/// Gregorian calendar. Calls nothing, so that a signal handler may ask.
///
/// Source: Howard Hinnant, chrono-Compatible Low-Level Date Algorithms, `civil_from_days`.
pub fn date_of_day(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Years begin in March here, so that the day which not each has is their last.
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = (shifted + 2) % 12 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month as u8, day as u8)
}

/// A wall-clock time in the local time zone, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year, as in 2026.
    pub year: i32,
    /// The month, `1..=12`.
    pub month: u8,
    /// The day of the month, `1..=31`.
    pub day: u8,
    /// The hour, `0..=23`.
    pub hour: u8,
    /// The minute, `0..=59`.
    pub minute: u8,
    /// The second, `0..=60`.
    pub second: u8,
    /// The millisecond, `0..=999`.
    pub millisecond: u16,
}

/// Returns `time` in the local time zone; in UTC's first second if the system cannot convert it.
pub fn local_time(time: UnixMs) -> LocalTime {
    let parts = local_parts(time);
    LocalTime {
        year: parts.tm_year + 1900,
        month: (parts.tm_mon + 1) as u8,
        day: parts.tm_mday as u8,
        hour: parts.tm_hour as u8,
        minute: parts.tm_min as u8,
        second: parts.tm_sec as u8,
        millisecond: time.0.rem_euclid(1000) as u16,
    }
}

/// Returns `time` in the local time zone as C has it; all zero if the system cannot convert it.
pub(crate) fn local_parts(time: UnixMs) -> libc::tm {
    let seconds: libc::time_t = time.0.div_euclid(1000);
    // SAFETY: `tm` is a plain C struct of integers and a pointer, for which all-zero bytes are a
    // value.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers refer to live locals of the right types, the second to one that nobody
    // else has; the call keeps neither. It reads the variable TZ: no thread of this workspace's
    // programs changes their environment.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_since_1970_are_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (-732, (1967, 12, 31)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_779, (2026, 11, 22)),
        ] {
            assert_eq!(date_of_day(days), expected, "{days}");
        }
    }

    #[test]
    fn local_time_has_the_ranges_it_states() {
        let time = local_time(realtime());
        assert!(time.year >= 2024, "{time:?}");
        assert!((1..=12).contains(&time.month) && (1..=31).contains(&time.day), "{time:?}");
        assert!(time.hour <= 23 && time.minute <= 59 && time.second <= 60, "{time:?}");
        assert!(time.millisecond <= 999, "{time:?}");
    }

    #[test]
    fn monotonic_and_processor_time_never_step_back() {
        let (steady, steady_ns, thread) = (monotonic(), monotonic_ns(), thread_cpu());
        assert!(steady_ns >= steady.as_nanos() as u64);
        assert!(monotonic() >= steady && monotonic_ns() >= steady_ns);
        assert!(thread_cpu() >= thread);
        assert!(process_cpu() >= thread);
    }
}
