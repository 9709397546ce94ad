//! Waiting for keys: which sessions wait for a key, in the order in which they came, and which keys
//! are ready.
//!
//! A session that finds none of its keys registers under the same guard under which it found
//! nothing, so it misses no write. Every change of an existing key passes `Place::tell` (SWAPDB
//! reports all its keys itself). If a session waits for the key, the key is marked ready. The
//! command that made it ready, or its EXEC, serves the waiting sessions one after the other when it
//! is done, while it still holds the guard: a key that was deleted by then was never there. Keys
//! that are ready when a guard is dropped are left with the keyspace, and are served under a guard
//! of their own.
//!
//! The caller decides what serving means: this file knows which sessions wait, keeps what the
//! caller registers with a wait, and ends each wait once. A wait for several keys is registered
//! with each of them, and ends by one step on its [`Waiter`]: either it was served, or the session
//! itself has ended it. The command that serves a session accesses nothing else of it.

use std::any::Any;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use arena::ValueType;
use base::{DatabaseIndex, Key, Lsn, ShardIndex, UnixMs};

use crate::guard::Guard;
use crate::keyspace::Keyspace;
use crate::registered::{Registered, Registration};
use crate::shard::{Shard, is_expired};

/// Bytes that one key of a wait costs in addition to its name, in shard and session together.
const WAIT_BYTES: usize = 224;

/// What one session waits for.
///
/// A wait ends through [`Keyspace::end_wait`]; a session waits for one thing at a time.
#[derive(Debug, Default)]
pub struct Waits {
    /// The number of the latest wait.
    number: u64,
    current: Option<Arc<Waiter>>,
    keys: Vec<AwaitedKey>,
    /// Bytes of what was registered with the wait.
    request_bytes: u64,
}

/// Where a key of a wait is registered.
#[derive(Debug)]
struct AwaitedKey {
    registration: Registration,
    key: ReadyKey,
    bytes: usize,
}

/// One wait, as the session and the shards of its keys share it.
#[derive(Debug)]
pub struct Waiter {
    session: u64,
    number: u64,
    request: Box<dyn Any + Send + Sync>,
    state: Mutex<WaitState>,
}

/// How a wait stands. A thread that changes it may hold a guard, and takes none meanwhile.
#[derive(Debug)]
pub enum WaitState {
    /// A ready key may serve it.
    Open,
    /// The session was told to run its request itself. No session after it is served meanwhile.
    Told,
    /// It was served.
    Served(Service),
    /// It may not be served: its session has ended it, or runs its request itself.
    Closed,
}

/// What came of serving a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The reply, in the protocol of the session that waited.
    pub reply: Box<[u8]>,
    /// The record of what serving has changed, which the reply has to wait for; 0 is none.
    pub lsn: Lsn,
}

/// A session that is to be told that its wait was served, or that it is to run its request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// The number of the session.
    pub session: u64,
    /// The number of its wait.
    pub wait: u64,
}

/// An awaited key that was seen to be there.
#[derive(Clone, Debug)]
pub struct ReadyKey {
    database: DatabaseIndex,
    shard: ShardIndex,
    hash: u64,
    secret: u64,
    name: Arc<[u8]>,
}

/// The position of a session among those that wait for the same key.
#[derive(Clone, Copy, Debug)]
pub struct QueuePlace(Registration);

impl Waits {
    /// Returns whether the session waits, and its wait has this number.
    pub fn is_current(&self, number: u64) -> bool {
        self.current.is_some() && self.number == number
    }

    /// Returns the wait, if the session is in one that is for keys.
    pub fn current(&self) -> Option<&Arc<Waiter>> {
        self.current.as_ref()
    }
}

impl Waiter {
    /// Returns what is to be said to the session.
    pub fn served(&self) -> Served {
        Served { session: self.session, wait: self.number }
    }

    /// Returns what was registered with the wait.
    pub fn request(&self) -> &(dyn Any + Send + Sync) {
        &*self.request
    }

    /// Locks the state: its holder alone decides how the wait goes on.
    pub fn state(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock().expect("no holder of the state of a wait panics")
    }
}

impl ReadyKey {
    /// Returns the database.
    pub fn database(&self) -> DatabaseIndex {
        self.database
    }

    /// Returns the shard.
    pub fn shard(&self) -> ShardIndex {
        self.shard
    }

    /// Returns the name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }
}

/// Keys that were ready when the guard under which they became so was dropped.
#[derive(Default)]
pub(crate) struct UnservedKeys {
    keys: Mutex<Vec<ReadyKey>>,
    has_any: AtomicBool,
}

impl UnservedKeys {
    pub fn add(&self, ready: Vec<ReadyKey>) {
        let mut keys = self.lock();
        keys.extend(ready);
        self.has_any.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ReadyKey>> {
        self.keys.lock().expect("no holder of the unserved keys panics")
    }
}

/// The sessions that wait for the keys of one shard.
#[derive(Debug, Default)]
pub(crate) struct WaitTable {
    waiting: Registered<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    hash: u64,
    name: Arc<[u8]>,
    waiter: Arc<Waiter>,
    /// Which type the key has to have, if one in particular.
    value_type: Option<ValueType>,
    /// The key is among those that are ready; set at the first session that waits for it.
    is_ready: bool,
}

impl WaitTable {
    /// Returns whether no session waits for any key: the one branch that a write pays.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Marks the key `name` of `database`, whose secret hash is `secret`, as ready and returns it,
    /// if a session waits for it and it is not marked already.
    #[cold]
    pub fn ready(
        &mut self,
        database: DatabaseIndex,
        shard: ShardIndex,
        secret: u64,
        name: &[u8],
    ) -> Option<ReadyKey> {
        let mut alike = self.waiting.of(database, secret).map(|(_, waiting)| waiting);
        let first = alike.find(|waiting| *waiting.name == *name)?;
        if std::mem::replace(&mut first.is_ready, true) {
            return None;
        }
        let (hash, name) = (first.hash, Arc::clone(&first.name));
        Some(ReadyKey { database, shard, hash, secret, name })
    }
}

impl Shard {
    /// Returns which awaited keys of `database` are there at `now`, now that it has got other
    /// contents.
    pub fn all_ready(&mut self, database: DatabaseIndex, now: UnixMs) -> Vec<ReadyKey> {
        let all = self.waits.waiting.of_database(database);
        let all: Vec<_> =
            all.map(|(it, waiting)| (it.secret, waiting.hash, Arc::clone(&waiting.name))).collect();
        let shard = self.index();
        let mut ready = Vec::new();
        for (secret, hash, name) in all {
            if self.type_of(database, hash, &name, now).is_some() {
                ready.extend(self.waits.ready(database, shard, secret, &name));
            }
        }
        ready
    }

    /// Returns the type of a key, where it exists.
    fn type_of(
        &self,
        database: DatabaseIndex,
        hash: u64,
        name: &[u8],
        now: UnixMs,
    ) -> Option<ValueType> {
        let part = self.database(database)?;
        let entry = part.table.entry(part.table.find(hash, name)?);
        (!is_expired(&entry, now)).then(|| entry.value_type())
    }
}

impl Guard<'_> {
    /// Registers session `session`, which found none of `keys` in `database` under this guard, to
    /// be served when one is there, of `value_type` where one is said. Whoever serves it is given
    /// `request`, which takes `request_bytes`.
    ///
    /// # Panics
    /// When the session waits already, or this guard lacks the shard of a key.
    pub fn begin_wait(
        &mut self,
        waits: &mut Waits,
        session: u64,
        database: DatabaseIndex,
        keys: &[Key<'_>],
        value_type: Option<ValueType>,
        (request, request_bytes): (Box<dyn Any + Send + Sync>, usize),
    ) {
        assert!(waits.current.is_none(), "a session waits for one thing at a time");
        waits.number += 1;
        waits.request_bytes = request_bytes as u64;
        let state = Mutex::new(WaitState::Open);
        let waiter = Arc::new(Waiter { session, number: waits.number, request, state });
        let mut charged = waits.request_bytes;
        for key in keys {
            let name: Arc<[u8]> = key.bytes.into();
            let secret = self.keyspace().secret_hasher().hash(key.bytes);
            let ready =
                ReadyKey { database, shard: key.shard, hash: key.hash, secret, name: name.clone() };
            let waiter = Arc::clone(&waiter);
            let waiting = Waiting { hash: key.hash, name, waiter, value_type, is_ready: false };
            let table = &mut self.shard_mut(key.shard).waits;
            let registration = table.waiting.add(database, secret, waiting);
            let bytes = key.bytes.len() + WAIT_BYTES;
            charged += bytes as u64;
            waits.keys.push(AwaitedKey { registration, key: ready, bytes });
        }
        waits.current = Some(waiter);
        self.keyspace().charge(charged);
    }

    /// Returns whether keys that somebody awaits have become ready since the last
    /// [`Guard::take_ready`], and may be served: an atomic record has to be complete before.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.recorder.has_ready() && !self.recorder.is_atomic()
    }

    /// Takes the keys that have become ready, in the order in which they did.
    pub fn take_ready(&mut self) -> Vec<ReadyKey> {
        self.recorder.take_ready()
    }

    /// Returns the session that waits for `ready` next after `place`, or first of all, and for the
    /// type that the key has at `now`; none where the key is gone. Costs the logarithm of how many
    /// wait, and a step for each who waits for another type.
    ///
    /// # Panics
    /// When this guard lacks the shard of the key.
    pub fn next_waiter(
        &mut self,
        ready: &ReadyKey,
        place: Option<QueuePlace>,
        now: UnixMs,
    ) -> Option<(QueuePlace, Arc<Waiter>)> {
        let shard = self.shard_mut(ready.shard);
        let value_type = shard.type_of(ready.database, ready.hash, &ready.name, now)?;
        let fits = |waiting: &Waiting| {
            waiting.name == ready.name && waiting.value_type.is_none_or(|it| it == value_type)
        };
        let from = place.map_or(Bound::Unbounded, |place| Bound::Excluded(place.0));
        let mut behind = shard.waits.waiting.behind(ready.database, ready.secret, from);
        let (registration, waiting) = behind.find(|(_, waiting)| fits(waiting))?;
        Some((QueuePlace(registration), Arc::clone(&waiting.waiter)))
    }

    /// Removes a session that has been served from the queue of `ready`.
    pub fn leave_queue(&mut self, ready: &ReadyKey, place: QueuePlace) {
        self.shard_mut(ready.shard).waits.waiting.remove(place.0);
    }

    /// Notes that those who wait for `ready`, which was taken, are about to be served: what happens
    /// to the key from now on makes it ready again.
    pub fn begin_service(&mut self, ready: &ReadyKey) {
        let table = &mut self.shard_mut(ready.shard).waits;
        let mut alike = table.waiting.of(ready.database, ready.secret);
        if let Some((_, first)) = alike.find(|(_, waiting)| waiting.name == ready.name) {
            first.is_ready = false;
        }
    }

    /// Makes the keys of a wait whose shards this guard holds ready again, for those behind it.
    pub fn renew_ready(&mut self, waits: &Waits, now: UnixMs) {
        for AwaitedKey { key, .. } in &waits.keys {
            if self.holds(key.shard) {
                self.note_there(key, now);
            }
        }
    }

    fn note_there(&mut self, key: &ReadyKey, now: UnixMs) {
        let shard = self.shard_mut(key.shard);
        if shard.type_of(key.database, key.hash, &key.name, now).is_some()
            && let Some(ready) = shard.waits.ready(key.database, key.shard, key.secret, &key.name)
        {
            self.recorder.note_ready(ready);
        }
    }
}

impl Keyspace {
    /// Ends the wait of a session, where it waits, and returns what came of it where it was served
    /// before. Where the session had been told to run its request itself and has not, its keys are
    /// ready for those behind it. The caller holds no guard, and serves what
    /// [`Keyspace::take_unserved`] returns.
    pub fn end_wait(&self, waits: &mut Waits, now: UnixMs) -> Option<Service> {
        let waiter = waits.current.take()?;
        let state = std::mem::replace(&mut *waiter.state(), WaitState::Closed);
        let mut charged = std::mem::take(&mut waits.request_bytes);
        for AwaitedKey { registration, key, bytes } in std::mem::take(&mut waits.keys) {
            let mut guard = self.lock(key.shard);
            guard.shard_mut(key.shard).waits.waiting.remove(registration);
            if matches!(state, WaitState::Told) {
                guard.note_there(&key, now);
            }
            charged += bytes as u64;
        }
        self.discharge(charged);
        match state {
            WaitState::Served(service) => Some(service),
            WaitState::Open | WaitState::Told => None,
            WaitState::Closed => unreachable!("a session that ends its wait forgets it"),
        }
    }

    /// Returns whether [`Keyspace::take_unserved`] would return keys. Whoever writes asks once he
    /// holds no guard.
    #[inline]
    pub fn has_unserved(&self) -> bool {
        self.unserved.has_any.load(Ordering::Relaxed)
    }

    /// Returns the keys that were ready when the guards under which they became so were dropped,
    /// and that nobody has served yet, for the caller to serve.
    pub fn take_unserved(&self) -> Vec<ReadyKey> {
        let mut keys = self.unserved.lock();
        self.unserved.has_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *keys)
    }
}
