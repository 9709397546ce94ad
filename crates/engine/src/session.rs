//! What lasts from one batch of a client to the next.

use base::{Key, UnixMs};
use command::SessionState;
use keyspace::{Claim, ReservedBlock, Waits, WatchMark, Watches};

/// One client's session. It ends with [`crate::Engine::close`].
#[derive(Debug)]
pub struct Session {
    /// What commands see of it.
    pub state: SessionState,
    pub(crate) watches: Watches,
    pub(crate) waits: Waits,
    /// The block that has an argument of the request to be run.
    pub(crate) offer: Option<Box<ReservedBlock>>,
    /// The block that an upload of its client is copied to part by part, until the next write.
    pub(crate) ahead: Option<Box<ReservedBlock>>,
}

impl Session {
    /// Returns a session as it begins at `now`: `authenticated` where no password is required.
    pub fn new(id: u64, now: UnixMs, authenticated: bool) -> Session {
        let state = SessionState::new(id, now, authenticated);
        let (watches, waits) = (Watches::default(), Waits::default());
        Session { state, watches, waits, offer: None, ahead: None }
    }

    /// Offers the block in which an argument of the request to be run next lies: a command that
    /// stores this argument as it is makes the block its entry's.
    pub fn offer(&mut self, block: Box<ReservedBlock>) {
        self.offer = Some(block);
    }

    /// Gives the block on offer back, unless it was taken.
    pub fn withdraw(&mut self) {
        self.offer = None;
    }

    /// Takes the block that a part of the claimed upload was copied to, for `key`. What another has
    /// a part of is given back.
    pub(crate) fn take_ahead(
        &mut self,
        claim: &Claim<'_>,
        key: &Key<'_>,
    ) -> Option<Box<ReservedBlock>> {
        self.ahead.take().filter(|block| block.is_copy_of(claim, key.bytes.len()))
    }

    /// Gives the block back that a part of an upload was copied to, if there is one.
    #[inline]
    pub(crate) fn give_up_ahead(&mut self) {
        if self.ahead.is_some() {
            self.ahead = None;
        }
    }

    /// Returns the bytes that the session holds beside itself; watches are accounted elsewhere.
    pub fn memory_bytes(&self) -> usize {
        let ahead = self.ahead.as_ref().map_or(0, |it| it.filled_bytes() + it.missing_bytes());
        self.state.transaction_bytes() + self.state.names.memory_bytes() + ahead
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
