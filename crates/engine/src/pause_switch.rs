//! Which requests have to wait: CLIENT PAUSE.

use std::sync::atomic::{AtomicU8, Ordering};

use command::Pause;

const OFF: u8 = 0;
const WRITES: u8 = 1;
const ALL: u8 = 2;

/// Whether there is a pause; every worker looks at it before each request.
#[derive(Debug, Default)]
pub struct PauseSwitch(AtomicU8);

impl PauseSwitch {
    /// Returns which requests have to wait.
    #[inline]
    pub fn get(&self) -> Option<Pause> {
        match self.0.load(Ordering::Relaxed) {
            OFF => None,
            WRITES => Some(Pause::Writes),
            _ => Some(Pause::All),
        }
    }

    /// Lets the requests that `pause` is about wait, or none.
    pub fn set(&self, pause: Option<Pause>) {
        let state = match pause {
            None => OFF,
            Some(Pause::Writes) => WRITES,
            Some(Pause::All) => ALL,
        };
        self.0.store(state, Ordering::Relaxed);
    }
}
