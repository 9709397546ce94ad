//! How long a call waits for a key, and in which steps.

use std::time::{Duration, Instant};

use crate::error::ClientError;

/// One AWAIT takes no longer: a server that is gone without a word is noticed then.
const SLICE_MAX: Duration = Duration::from_secs(30);
/// How much later than its slice the reply to an AWAIT may come, where the client has no limit of
/// its own.
const GRACE: Duration = Duration::from_secs(10);
/// Pauses between requests to a server that has no AWAIT.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// A wait for a key until a deadline, if there is one.
pub struct KeyWait {
    deadline: Option<Instant>,
    pause: Duration,
}

impl KeyWait {
    /// Returns a wait that begins `now`. One that would end beyond all time has no end.
    pub fn new(timeout: Option<Duration>, now: Instant) -> KeyWait {
        let deadline = timeout.and_then(|timeout| now.checked_add(timeout));
        KeyWait { deadline, pause: PAUSE_MIN }
    }

    /// Returns how long the next step takes at most; `None` when the wait is over.
    pub fn next_slice(&mut self, now: Instant) -> Option<Duration> {
        match self.deadline {
            None => Some(SLICE_MAX),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(now);
                (!left.is_zero()).then(|| left.min(SLICE_MAX))
            }
        }
    }

    /// Returns how long to pause before the next request, where `error` says that the server cannot
    /// wait for keys.
    pub fn pause_instead(&mut self, error: &ClientError) -> Option<Duration> {
        let ClientError::Refused(text) = error else { return None };
        if !text.starts_with("ERR unknown command") {
            return None;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        Some(self.deadline.map_or(pause, |deadline| {
            pause.min(deadline.saturating_duration_since(Instant::now()))
        }))
    }
}

/// Returns how long the reply to a request is waited for that takes `slice` where nothing happens,
/// by a client that gives up after `timeout`.
pub fn limit(timeout: Option<Duration>, slice: Duration) -> Duration {
    timeout.unwrap_or(GRACE).saturating_add(slice)
}

/// Returns `slice` as AWAIT takes it: seconds, which must not be zero, as that is for ever.
pub fn await_request(slice: Duration) -> String {
    format!("{:.3}", slice.as_secs_f64().max(0.001))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_ends_at_its_deadline_in_bounded_steps() {
        let start = Instant::now();
        let mut wait = KeyWait::new(Some(Duration::from_secs(40)), start);
        assert_eq!(wait.next_slice(start), Some(SLICE_MAX));
        let later = start + Duration::from_secs(31);
        assert_eq!(wait.next_slice(later), Some(Duration::from_secs(9)));
        assert_eq!(wait.next_slice(start + Duration::from_secs(40)), None);
        for endless in [None, Some(Duration::MAX)] {
            assert_eq!(KeyWait::new(endless, start).next_slice(later), Some(SLICE_MAX));
        }
        assert_eq!(await_request(Duration::from_nanos(1)), "0.001");
        assert_eq!(await_request(Duration::from_millis(2500)), "2.500");
    }

    #[test]
    fn server_that_cannot_wait_is_asked_with_growing_pauses() {
        let mut wait = KeyWait::new(None, Instant::now());
        let unknown = ClientError::Refused("ERR unknown command 'AWAIT', with".to_owned());
        let pauses: Vec<_> = (0..8).filter_map(|_| wait.pause_instead(&unknown)).collect();
        assert_eq!((pauses[0], pauses[7]), (PAUSE_MIN, PAUSE_MAX));
        assert!(wait.pause_instead(&ClientError::TimedOut).is_none());
    }
}
