//! CLIENT PAUSE: until when requests have to wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use command::Pause;
use engine::PauseSwitch;

/// The pause, if there is one. The service thread ends it when its time is over, and tells the
/// workers, whose connections wait.
#[derive(Debug, Default)]
pub struct ClientPause {
    /// What the workers look at.
    pub switch: PauseSwitch,
    /// When it ends, by the steady clock; 0 where there is none.
    end: Mutex<Duration>,
}

impl ClientPause {
    /// Begins a pause at `now`, or makes the one underway longer and stricter, never shorter or
    /// milder.
    pub fn begin(&self, pause: Pause, span: Duration, now: Duration) {
        let mut end = self.lock();
        *end = now.saturating_add(span).max(*end);
        self.switch.set(self.switch.get().max(Some(pause)));
    }

    /// Ends the pause; returns false where there was none.
    pub fn end(&self) -> bool {
        let mut end = self.lock();
        *end = Duration::ZERO;
        self.switch.get().inspect(|_| self.switch.set(None)).is_some()
    }

    /// Ends the pause if its time is over at `now`; returns whether it has ended it.
    pub fn end_if_over(&self, now: Duration) -> bool {
        let mut end = self.lock();
        if self.switch.get().is_none() || now < *end {
            return false;
        }
        *end = Duration::ZERO;
        self.switch.set(None);
        true
    }

    /// Returns how much of the pause is left at `now`; none where there is no pause.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        self.switch.get()?;
        Some(self.lock().saturating_sub(now))
    }

    fn lock(&self) -> MutexGuard<'_, Duration> {
        // One assignment: it is whole even if its thread panicked.
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_second_pause_makes_the_first_longer_and_stricter_only() {
        let pause = ClientPause::default();
        assert!(pause.left(SECOND).is_none() && !pause.end());
        pause.begin(Pause::All, 5 * SECOND, SECOND);
        pause.begin(Pause::Writes, SECOND, SECOND);
        assert_eq!(pause.switch.get(), Some(Pause::All));
        assert_eq!(pause.left(2 * SECOND), Some(4 * SECOND));
        assert!(!pause.end_if_over(5 * SECOND) && pause.end_if_over(6 * SECOND));
        assert!(pause.switch.get().is_none() && !pause.end_if_over(7 * SECOND));
        pause.begin(Pause::Writes, SECOND, 7 * SECOND);
        assert_eq!(pause.switch.get(), Some(Pause::Writes));
        assert!(pause.end() && pause.switch.get().is_none());
    }
}
