//! WATCH: the sessions that have to know whether a key changes before their EXEC.
//!
//! Each watcher has its own mark for a key that had expired when the watch began, because removing
//! such a key changes nothing for that watcher, as Redis has it. A version per key could not tell
//! watchers apart.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use base::step_counters::{self, CountedStep};
use base::{DatabaseIndex, Key, ShardIndex, Slot, UnixMs};

use crate::guard::Guard;
use crate::key_registrations::{Registered, Registration};
use crate::keyspace::Keyspace;
use crate::shard::{Shard, is_expired};

/// Bytes that one watch of one key costs beside the key's own, in shard and session together.
const WATCH_BYTES: usize = 224;
/// Of so many watched keys a session looks at each to know whether it has one already.
const LOOKED_AT_MAX: usize = 16;

/// The watches of one session.
///
/// They end through [`Keyspace::unwatch`] or [`Guard::unwatch`]. Watches that are merely dropped
/// no longer mean anything either, and the next change of their key forgets them.
#[derive(Debug, Default)]
pub struct Watches {
    /// Set by the thread that changes a watched key; shared with the shards.
    dirty: Option<Arc<AtomicBool>>,
    /// That of watches that have ended, for the next ones.
    spare: Option<Arc<AtomicBool>>,
    keys: Vec<WatchedKey>,
    /// The keys by database and secret hash, each with where it is in the list: what makes many of
    /// them cost no more than few, each. Empty while there are few.
    order: BTreeSet<(DatabaseIndex, u64, usize)>,
    bytes: u64,
}

#[derive(Debug)]
struct WatchedKey {
    registration: Registration,
    bytes: Arc<[u8]>,
    hash: u64,
    slot: Slot,
    shard: ShardIndex,
}

impl WatchedKey {
    fn key(&self) -> Key<'_> {
        Key { bytes: &self.bytes, hash: self.hash, slot: self.slot, shard: self.shard }
    }

    fn charged_bytes(&self) -> u64 {
        (self.bytes.len() + WATCH_BYTES) as u64
    }

    fn is(&self, database: DatabaseIndex, key: &[u8]) -> bool {
        step_counters::count_step(CountedStep::Registration);
        self.registration.database == database && *self.bytes == *key
    }
}

impl Watches {
    /// Returns whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the number of watched keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the bytes of memory that the watches take, in the session and in the shards.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether a watched key is known to have changed.
    pub fn is_dirty(&self) -> bool {
        // Relaxed: whoever must not miss a change holds the shards, whose locks order it.
        self.dirty.as_ref().is_some_and(|dirty| dirty.load(Ordering::Relaxed))
    }

    /// Returns what tells others whether a watched key is known to have changed.
    pub fn mark(&self) -> WatchMark {
        WatchMark(self.dirty.as_ref().map(Arc::downgrade).unwrap_or_default())
    }

    /// Returns the shards of the watched keys.
    pub fn shards(&self) -> impl Iterator<Item = ShardIndex> + '_ {
        self.keys.iter().map(|watched| watched.shard)
    }

    /// Returns the mark of these watches, a new one where nothing is watched.
    fn begin(&mut self) -> &Arc<AtomicBool> {
        let spare = &mut self.spare;
        self.dirty.get_or_insert_with(|| spare.take().unwrap_or_default())
    }

    /// Keeps `dirty`, the mark of watches that have ended, unless a shard or a
    /// [`WatchMark`] still refers to it.
    fn end(&mut self, mut dirty: Arc<AtomicBool>) {
        if let Some(mark) = Arc::get_mut(&mut dirty) {
            *mark.get_mut() = false;
            self.spare = Some(dirty);
        }
    }

    fn contains(&self, database: DatabaseIndex, secret: u64, key: &[u8]) -> bool {
        if self.order.is_empty() {
            return self.keys.iter().any(|watched| watched.is(database, key));
        }
        let mut alike = self.order.range((database, secret, 0)..=(database, secret, usize::MAX));
        alike.any(|&(_, _, index)| self.keys[index].is(database, key))
    }

    fn push(&mut self, watched: WatchedKey) {
        self.bytes += watched.charged_bytes();
        self.keys.push(watched);
        let first = match self.keys.len() {
            ..=LOOKED_AT_MAX => return,
            _ if self.order.is_empty() => 0,
            count => count - 1,
        };
        for (index, WatchedKey { registration, .. }) in self.keys.iter().enumerate().skip(first) {
            self.order.insert((registration.database, registration.secret, index));
        }
    }

    /// Takes all keys out, and the bytes that they were charged with.
    fn take_keys(&mut self) -> (impl Iterator<Item = WatchedKey> + use<>, u64) {
        self.order.clear();
        (std::mem::take(&mut self.keys).into_iter(), std::mem::take(&mut self.bytes))
    }
}

/// Tells from outside a session whether a key that it watches is known to have changed. Keeps no
/// watch alive; equal to those of the same watches, from the first WATCH to their end.
#[derive(Clone, Debug, Default)]
pub struct WatchMark(Weak<AtomicBool>);

impl WatchMark {
    /// Returns whether a watched key is known to have changed; false once the watches have ended.
    pub fn is_dirty(&self) -> bool {
        self.0.upgrade().is_some_and(|dirty| dirty.load(Ordering::Relaxed))
    }
}

impl PartialEq for WatchMark {
    fn eq(&self, other: &WatchMark) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

/// Who watches the keys of one shard: one record for each watch.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    watchers: Registered<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    hash: u64,
    key: Arc<[u8]>,
    dirty: Arc<AtomicBool>,
    /// The key was there and had expired when the watch began, and no change came since.
    expired: bool,
}

impl Watcher {
    /// Returns whether the session is still there.
    fn is_attended(&self) -> bool {
        Arc::strong_count(&self.dirty) > 1
    }

    fn mark_dirty(&self) {
        self.dirty.store(true, Ordering::Relaxed);
    }
}

/// What a lookup for the watchers' sake finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Absent,
    Alive,
    Expired,
}

impl WatchTable {
    /// Returns whether no session watches any key: the one branch that a write pays.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Tells the watchers of `key`, whose secret hash is `secret`, that it changed, and `exists`
    /// now.
    pub fn touch(&mut self, database: DatabaseIndex, secret: u64, key: &[u8], exists: bool) {
        let mut left = Vec::new();
        for (registration, watcher) in self.watchers.of(database, secret) {
            if *watcher.key != *key {
                continue;
            }
            // An expired key that is removed is as absent as it was.
            if watcher.expired && !exists {
                watcher.expired = false;
            } else {
                watcher.mark_dirty();
            }
            if !watcher.is_attended() {
                left.push(registration);
            }
        }
        for registration in left {
            self.watchers.remove(registration);
        }
    }
}

impl Shard {
    /// Tells the watchers of `emptied` that all its keys go, and that those of `replacement`, if
    /// any, come in their place. Called before it happens.
    ///
    /// Source: Redis, touchAllWatchedKeysInDb.
    pub fn touch_all(
        &mut self,
        emptied: DatabaseIndex,
        replacement: Option<DatabaseIndex>,
        now: UnixMs,
    ) {
        let mut watches = std::mem::take(&mut self.watches);
        for (_, watcher) in watches.watchers.of_database(emptied) {
            let before = self.presence(emptied, watcher.hash, &watcher.key, now);
            let after = match replacement {
                Some(replacement) => self.presence(replacement, watcher.hash, &watcher.key, now),
                None => Presence::Absent,
            };
            watcher.replaced(before, after);
        }
        self.watches = watches;
    }

    fn presence(&self, database: DatabaseIndex, hash: u64, key: &[u8], now: UnixMs) -> Presence {
        let Some(part) = self.database(database) else { return Presence::Absent };
        match part.table.find(hash, key) {
            None => Presence::Absent,
            Some(id) if is_expired(&part.table.entry(id), now) => Presence::Expired,
            Some(_) => Presence::Alive,
        }
    }
}

impl Watcher {
    fn replaced(&mut self, before: Presence, after: Presence) {
        match (self.expired, before, after) {
            (_, Presence::Absent, Presence::Absent) => {}
            // As absent as it was: now really gone, or still there and expired.
            (true, _, Presence::Absent) => self.expired = false,
            (true, _, Presence::Expired) => {}
            // Absent, and an expired key came: as absent as it was.
            (false, Presence::Absent, Presence::Expired) => self.expired = true,
            _ => self.mark_dirty(),
        }
    }
}

impl Keyspace {
    /// Makes `watches` watch `keys` of `database` from now on; those that it watches already stay
    /// as they are.
    pub fn watch(
        &self,
        watches: &mut Watches,
        database: DatabaseIndex,
        keys: &[Key<'_>],
        now: UnixMs,
    ) {
        for key in keys {
            let secret = self.secret_hasher().hash(key.bytes);
            if !watches.contains(database, secret, key.bytes) {
                self.lock(key.shard).watch_as(watches, database, key, secret, now);
            }
        }
    }

    /// Ends all of `watches`. The caller holds no guard.
    pub fn unwatch(&self, watches: &mut Watches) {
        let Some(dirty) = watches.dirty.take() else { return };
        let (keys, bytes) = watches.take_keys();
        for WatchedKey { shard, registration, .. } in keys {
            self.lock(shard).shard_mut(shard).watches.watchers.remove(registration);
        }
        self.discharge(bytes);
        watches.end(dirty);
    }
}

impl Guard<'_> {
    /// Makes `watches`, which watch nothing, watch `key` of `database` from now on.
    ///
    /// # Panics
    /// When something is watched, or this guard lacks the shard of the key.
    pub fn watch(
        &mut self,
        watches: &mut Watches,
        database: DatabaseIndex,
        key: &Key<'_>,
        now: UnixMs,
    ) {
        assert!(watches.is_empty(), "whether a key is watched already is not looked at");
        let secret = self.keyspace().secret_hasher().hash(key.bytes);
        self.watch_as(watches, database, key, secret, now);
    }

    /// Makes `watches` watch `key`, whose secret hash is `secret`, and which they do not watch yet.
    fn watch_as(
        &mut self,
        watches: &mut Watches,
        database: DatabaseIndex,
        key: &Key<'_>,
        secret: u64,
        now: UnixMs,
    ) {
        let dirty = watches.begin().clone();
        let Key { hash, slot, shard, .. } = *key;
        let bytes: Arc<[u8]> = key.bytes.into();
        let locked = self.shard_mut(shard);
        let expired = locked.presence(database, hash, &bytes, now) == Presence::Expired;
        let watcher = Watcher { hash, key: Arc::clone(&bytes), dirty, expired };
        let registration = locked.watches.watchers.add(database, secret, 0, watcher);
        let watched = WatchedKey { registration, bytes, hash, slot, shard };
        self.keyspace().charge(watched.charged_bytes());
        watches.push(watched);
    }

    /// Returns whether no watched key has changed since its watch began, nor expired since.
    ///
    /// # Panics
    /// When this guard lacks the shard of a watched key.
    pub fn watches_hold(&self, watches: &Watches, now: UnixMs) -> bool {
        let Some(dirty) = &watches.dirty else { return true };
        !dirty.load(Ordering::Relaxed)
            && watches.keys.iter().all(|watched| {
                let shard = self.shards().shard(watched.shard);
                let key = watched.key();
                let WatchedKey { registration, .. } = watched;
                let presence = shard.presence(registration.database, key.hash, key.bytes, now);
                let watcher = shard.watches.watchers.get(*registration);
                presence != Presence::Expired || watcher.is_some_and(|watcher| watcher.expired)
            })
    }

    /// Ends all of `watches`.
    ///
    /// # Panics
    /// When this guard lacks the shard of a watched key.
    pub fn unwatch(&mut self, watches: &mut Watches) {
        let Some(dirty) = watches.dirty.take() else { return };
        let (keys, bytes) = watches.take_keys();
        for WatchedKey { shard, registration, .. } in keys {
            self.shard_mut(shard).watches.watchers.remove(registration);
        }
        self.keyspace().discharge(bytes);
        watches.end(dirty);
    }
}
