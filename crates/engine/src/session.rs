//! What lasts from one batch of a client to the next.

use std::sync::Arc;

use base::{Key, UnixMs};
use command::{Attendance, Command, SessionState};
use keyspace::{Claim, ReservedBlock, ShardSet, Waits, WatchMark, Watches};
use resp::OwnedRequest;

use crate::blocked_sessions::BlockedRequest;

/// One client's session. It ends with [`crate::Engine::close`].
#[derive(Debug)]
pub struct Session {
    /// What commands see of it.
    pub state: SessionState,
    /// How it stands with its host; without it, it may always be served.
    pub attendance: Option<Arc<dyn Attendance>>,
    pub(crate) watches: Watches,
    pub(crate) waits: Waits,
    /// The shards where it may have leases; none before it asks for the first.
    pub(crate) leases: Option<Box<ShardSet>>,
    /// The block that has an argument of the request to be run.
    pub(crate) offer: Option<Box<ReservedBlock>>,
    partial_copy: Option<PartialCopy>,
    /// The request that waits for the host.
    pub(crate) kept: Option<Box<KeptRequest>>,
}

/// A request that waits for the host, to be run again.
#[derive(Debug)]
pub(crate) struct KeptRequest {
    pub command: &'static Command,
    pub request: OwnedRequest,
    /// The host has what it waits for, and a pause keeps it from being run.
    pub is_paused: bool,
}

/// A block that an upload of the session's client is copied to part by part.
#[derive(Debug)]
struct PartialCopy {
    block: Box<ReservedBlock>,
    /// The request that is run has copied a part: the next one may go on.
    is_new: bool,
}

impl Session {
    /// Returns a session as it begins at `now`: `authenticated` where no password is required.
    pub fn new(id: u64, now: UnixMs, authenticated: bool) -> Session {
        let state = SessionState::new(id, now, authenticated);
        let (watches, waits) = (Watches::default(), Waits::default());
        Session {
            state,
            attendance: None,
            watches,
            waits,
            leases: None,
            offer: None,
            partial_copy: None,
            kept: None,
        }
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

    /// Keeps `block`, which a part of an upload was just copied to, for the next request.
    pub(crate) fn keep_partial_copy(&mut self, block: Box<ReservedBlock>) {
        self.partial_copy = Some(PartialCopy { block, is_new: true });
    }

    /// Takes the block into which earlier requests have copied a part of the claimed upload, if it
    /// fits `key`.
    pub(crate) fn take_partial_copy(
        &mut self,
        claim: &Claim<'_>,
        key: &Key<'_>,
    ) -> Option<Box<ReservedBlock>> {
        let block = self.partial_copy.take()?.block;
        block.is_copy_of(claim, key.bytes.len()).then_some(block)
    }

    /// Called after each request. Drops the partial copy of an upload unless this request has just
    /// extended it: after any other request the client may write the upload anew.
    #[inline]
    pub(crate) fn drop_stale_partial_copy(&mut self) {
        self.partial_copy.take_if(|partial_copy| !std::mem::take(&mut partial_copy.is_new));
    }

    /// Notes that it may get leases of `keys`, which end with it.
    #[cold]
    pub(crate) fn note_leases(&mut self, keys: &[Key<'_>]) {
        let shards = self.leases.get_or_insert_default();
        keys.iter().for_each(|key| shards.insert(key.shard));
    }

    /// Returns the bytes of the block that an upload is copied to, which count in the keyspace.
    pub fn partial_copy_bytes(&self) -> usize {
        self.partial_copy
            .as_ref()
            .map_or(0, |it| it.block.filled_bytes() + it.block.missing_bytes())
    }

    /// Returns the bytes that the session's watches take, which count in the keyspace.
    pub fn watch_bytes(&self) -> usize {
        self.watches.bytes() as usize
    }

    /// Returns the bytes that the wait of the session takes, which count in the keyspace.
    pub fn wait_bytes(&self) -> usize {
        self.waits.bytes() as usize
    }

    /// Returns how many keys the session waits for.
    pub fn awaited_key_count(&self) -> usize {
        self.waits.key_count()
    }

    /// Returns the bytes of the arguments of the request that waits for a key, or for the host.
    pub fn waiting_argument_bytes(&self) -> usize {
        let of_keys = self.waits.current().map(|it| BlockedRequest::of(it).argument_bytes());
        let of_host = self.kept.as_ref().map(|kept| kept.request.argument_bytes());
        of_keys.or(of_host).unwrap_or(0)
    }

    /// Returns the bytes of values that are sent to another server, which count in the keyspace.
    pub fn migrating_bytes(&self) -> usize {
        self.state.migration.as_ref().map_or(0, |migration| migration.bytes() as usize)
    }

    /// Returns whether the session's request has waited for the host and is to be run again once a
    /// pause is over.
    pub fn is_to_continue(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_paused)
    }

    /// Returns the bytes that the session holds beside itself, without its watches and its wait.
    pub fn memory_bytes(&self) -> usize {
        let kept = self.kept.as_ref().map_or(0, |kept| kept.request.memory_bytes());
        let leases = self.leases.as_ref().map_or(0, |shards| size_of_val(&**shards));
        self.state.transaction_bytes() + self.state.names.memory_bytes() + kept + leases
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
