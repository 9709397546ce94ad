//! What lasts from one batch of a client to the next.

use base::UnixMs;
use command::SessionState;
use keyspace::{Waits, WatchMark, Watches};

/// One client's session. It ends with [`crate::Engine::close`].
#[derive(Debug)]
pub struct Session {
    /// What commands see of it.
    pub state: SessionState,
    pub(crate) watches: Watches,
    pub(crate) waits: Waits,
}

impl Session {
    /// Returns a session as it begins at `now`: `authenticated` where no password is required.
    pub fn new(id: u64, now: UnixMs, authenticated: bool) -> Session {
        let state = SessionState::new(id, now, authenticated);
        Session { state, watches: Watches::default(), waits: Waits::default() }
    }

    /// Returns the bytes that the session holds beside itself; watches are accounted elsewhere.
    pub fn memory_bytes(&self) -> usize {
        self.state.transaction_bytes() + self.state.names.memory_bytes()
    }

    /// Returns what tells others whether a watched key has changed.
    #[inline]
    pub fn watch_mark(&self) -> WatchMark {
        self.watches.mark()
    }

    /// Returns whether the session is in its wait of this number, for a key.
    pub fn is_in_wait(&self, number: u64) -> bool {
        self.waits.is_current(number)
    }

    /// Returns the number of keys that the session watches.
    pub fn watched_keys(&self) -> usize {
        self.watches.len()
    }
}
