//! Waiting for keys: which sessions wait for a key, in the order in which they came, and which keys
//! are ready.
//!
//! A session that finds none of its keys registers under the same guard under which it found
//! nothing, so it misses no write. A change that makes a key exist, makes it one of another type or
//! keeps it from expiring says so (`KeyWriter::appear`, and SWAPDB for all its keys). If a session
//! waits for the key, the key is marked ready; other changes of a key that exists notify no one.
//! The command that made it ready, or its EXEC, serves the waiting sessions one after the other
//! when it is done, while it still holds the guard: a key that was deleted by then was never there.
//! Keys that are ready when a guard is dropped are left with the keyspace, and are served under a
//! guard of their own, or of one shard after the other where they are very many.
//!
//! Sessions that wait for a key of one type are apart from those that want another type, so that a
//! key of a type that no session wants costs no step.
//!
//! The caller decides what serving means: this file knows which sessions wait, keeps what the
//! caller registers with a wait, and ends each wait once. A wait for several keys is registered
//! with each of them, and ends by one step on its [`Waiter`]: either it was served, or the session
//! itself has ended it. The command that serves a session accesses nothing else of it.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use arena::ValueType;
use base::{DatabaseIndex, Key, Lsn, ShardIndex, UnixMs};

use crate::guard::Guard;
use crate::key_registrations::{Registered, Registration};
use crate::keyspace::Keyspace;
use crate::ready::{AwaitedNames, ReadyKey, ReadyKeys};
use crate::shard::{Shard, is_expired};

/// Bytes that one key of a wait costs in addition to its name, in shard and session together.
const WAIT_BYTES: usize = 224;
/// How many keys of a wait, or keys that are ready, are worked on in one hold of their shard.
pub(crate) const KEYS_PER_HOLD_MAX: usize = 1024;
/// Those who wait for a key of any type.
const ANY_TYPE: u8 = 0;

/// Those who wait for a stream, and for its end: that the key is gone, or of another type.
const STREAM_OR_END: u8 = 0x80 | ValueType::Stream as u8;

/// Those who wait for a key of any type, or for the right to fill it.
const KEY_OR_LEASE: u8 = 0x40;

/// What ends a wait, beside that its key is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitEnd {
    /// Nothing.
    #[default]
    Key,
    /// That a key of the type is not there any more, which only a wait for a stream asks for.
    KeyOrItsEnd,
    /// That nobody has the right to fill it any more.
    KeyOrLease,
}

/// Returns the group of those who wait for a key of `value_type`, or of any, or for another `end`.
fn group_of(value_type: Option<ValueType>, end: WaitEnd) -> u8 {
    match end {
        WaitEnd::KeyOrItsEnd => STREAM_OR_END,
        WaitEnd::KeyOrLease => KEY_OR_LEASE,
        WaitEnd::Key => value_type.map_or(ANY_TYPE, |it| it as u8),
    }
}

/// Returns whether those of `group` may go on where the key is not there.
fn minds_absence(group: u8) -> bool {
    group == STREAM_OR_END || group == KEY_OR_LEASE
}

/// What one session waits for.
///
/// A wait ends through [`Keyspace::end_wait`]; a session waits for one thing at a time.
#[derive(Debug, Default)]
pub struct Waits {
    /// The number of the latest wait.
    number: u64,
    current: Option<Arc<Waiter>>,
    /// In any order.
    keys: Vec<AwaitedKey>,
    /// What the wait is charged with.
    bytes: u64,
}

/// Where a key of a wait is registered.
#[derive(Debug)]
struct AwaitedKey {
    registration: Registration,
    shard: ShardIndex,
    hash: u64,
    name: Arc<[u8]>,
}

/// A wait that is to begin.
pub struct NewWait<'a> {
    /// The number of the session.
    pub session: u64,
    /// Where the host of the session finds it.
    pub place: usize,
    /// The database of the keys.
    pub database: DatabaseIndex,
    /// The keys of the request that are waited for.
    pub keys: &'a [Key<'a>],
    /// The names of these keys.
    pub names: &'a AwaitedNames,
    /// Which type a key has to have, if one in particular.
    pub value_type: Option<ValueType>,
    /// What ends the wait beside the key.
    pub end: WaitEnd,
    /// What whoever serves the session is given.
    pub request: Box<dyn Any + Send + Sync>,
    /// What the request takes and [`Keyspace::wait_bytes`].
    pub bytes: u64,
}

/// One wait, as the session and the shards of its keys share it.
#[derive(Debug)]
pub struct Waiter {
    wakeup: SessionWakeup,
    request: Box<dyn Any + Send + Sync>,
    state: Mutex<WaitState>,
    /// The LSN of the last record before this as which its request was run and waited on.
    record: AtomicU64,
}

/// How a wait stands. A thread that changes it may hold a guard, and takes none meanwhile.
#[derive(Debug)]
pub enum WaitState {
    /// A ready key may serve it.
    Open,
    /// The session was told to run its request itself.
    Told {
        /// No session after it is served meanwhile.
        blocks_others: bool,
    },
    /// It was served: [`Keyspace::keep_served`].
    Served(ServedReply),
    /// It may not be served: its session has ended it, or runs its request itself.
    Closed,
}

/// What came of serving a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedReply {
    /// The reply, in the protocol of the session that waited.
    pub reply: Box<[u8]>,
    /// The record of what serving has changed, which the reply has to wait for; 0 is none.
    pub lsn: Lsn,
}

/// A session that is to be told that its wait was served, or that it is to run its request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionWakeup {
    /// The number of the session.
    pub session: u64,
    /// The number of its wait.
    pub wait: u64,
    /// Where the host of the session finds it.
    pub place: usize,
}

/// The position of a session among those that wait for the same key.
#[derive(Clone, Copy, Debug)]
pub struct QueuePlace(Registration);

impl QueuePlace {
    /// Returns whether the session waits for the right to fill the key.
    pub fn is_for_lease(self) -> bool {
        self.0.group == KEY_OR_LEASE
    }
}

impl Waits {
    /// Returns whether the session waits, and its wait has this number.
    pub fn is_current(&self, number: u64) -> bool {
        self.current.is_some() && self.number == number
    }

    /// Returns the wait, if the session is in one that is for keys.
    pub fn current(&self) -> Option<&Arc<Waiter>> {
        self.current.as_ref()
    }

    /// Returns how many keys the wait is for.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Returns the bytes of memory that the wait takes, in the session and in the shards.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Waiter {
    /// Returns what is to be said to the session.
    pub fn wakeup(&self) -> SessionWakeup {
        self.wakeup
    }

    /// Returns what was registered with the wait.
    pub fn request(&self) -> &(dyn Any + Send + Sync) {
        &*self.request
    }

    /// Notes that its request was run and waits on; what it has changed is in records up to `lsn`.
    pub fn note_record(&self, lsn: Lsn) {
        // Relaxed: who ends the wait has locked the state since.
        self.record.fetch_max(lsn.0, Ordering::Relaxed);
    }

    /// Returns which record the reply has to wait for, whatever ends the wait; 0 is none.
    pub fn record(&self) -> Lsn {
        Lsn(self.record.load(Ordering::Relaxed))
    }

    /// Locks the state: its holder alone decides how the wait goes on.
    pub fn state(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock().expect("no holder of the state of a wait panics")
    }
}

/// Keys that were ready when the guard under which they became so was dropped.
#[derive(Default)]
pub(crate) struct UnservedKeys {
    keys: Mutex<ReadyKeys>,
    has_any: AtomicBool,
}

impl UnservedKeys {
    pub fn add(&self, ready: impl IntoIterator<Item = ReadyKey>) {
        let mut keys = self.lock();
        keys.extend(ready);
        self.has_any.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, ReadyKeys> {
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
}

impl WaitTable {
    /// Returns whether no session waits for any key: the one branch that a write pays.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the key `name` of `database`, whose secret hash is `secret`, as one that is to be
    /// served, if a session waits for it.
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
        let (hash, name) = (first.hash, Arc::clone(&first.name));
        Some(ReadyKey { database, shard, hash, secret, name })
    }
}

impl Shard {
    /// Returns which awaited keys of `database` are there at `now`, or are awaited if they are not,
    /// now that it has got other contents.
    pub fn all_ready(&mut self, database: DatabaseIndex, now: UnixMs) -> Vec<ReadyKey> {
        let shard = self.index();
        let all = self.waits.waiting.of_database(database);
        let all = all.map(|(Registration { secret, group, .. }, Waiting { hash, name, .. })| {
            let name = Arc::clone(name);
            (ReadyKey { database, shard, hash: *hash, secret, name }, group)
        });
        let mut ready: Vec<(ReadyKey, u8)> = all.collect();
        ready.retain(|(key, group)| {
            minds_absence(*group) || self.type_of(database, key.hash, &key.name, now).is_some()
        });
        ready.dedup_by(|(one, _), (other, _)| one.secret == other.secret && one.name == other.name);
        ready.into_iter().map(|(key, _)| key).collect()
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
    /// Registers a session that found none of the keys that `wait` is for under this guard, to be
    /// served when one is there. A key that the request names several times counts once.
    ///
    /// # Panics
    /// When the session waits already, or this guard lacks the shard of a key.
    pub fn begin_wait(&mut self, waits: &mut Waits, wait: NewWait<'_>) {
        assert!(waits.current.is_none(), "a session waits for one thing at a time");
        let NewWait { session, place, database, keys, names, request, bytes, .. } = wait;
        let group = group_of(wait.value_type, wait.end);
        waits.number += 1;
        let wakeup = SessionWakeup { session, wait: waits.number, place };
        let (state, record) = (Mutex::new(WaitState::Open), AtomicU64::new(0));
        let waiter = Arc::new(Waiter { wakeup, request, state, record });
        waits.keys.reserve_exact(names.len());
        for (secret, index) in names.iter() {
            let Key { bytes, hash, shard, .. } = keys[index];
            let name: Arc<[u8]> = bytes.into();
            let waiting = Waiting { hash, name: name.clone(), waiter: Arc::clone(&waiter) };
            let table = &mut self.shard_mut(shard).waits;
            let registration = table.waiting.add(database, secret, group, waiting);
            waits.keys.push(AwaitedKey { registration, shard, hash, name });
        }
        waits.current = Some(waiter);
        waits.bytes = bytes;
        self.keyspace().charge(bytes);
    }

    /// Returns whether keys that somebody awaits have become ready since the last
    /// [`Guard::take_ready`], and may be served: an atomic record has to be complete before.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.recorder.has_ready() && !self.recorder.is_atomic()
    }

    /// Takes the keys that have become ready, in the order in which they did.
    pub fn take_ready(&mut self) -> ReadyKeys {
        self.recorder.take_ready()
    }

    /// Returns the session that waits for `ready` next after `place`, or first of all, and for the
    /// type that the key has at `now`, for its end, or for the right to fill it, but for the latter
    /// where that `is_leased`. Costs the logarithm of how many wait.
    ///
    /// # Panics
    /// When this guard lacks the shard of the key.
    pub fn next_waiter(
        &mut self,
        ready: &ReadyKey,
        place: Option<QueuePlace>,
        is_leased: bool,
        now: UnixMs,
    ) -> Option<(QueuePlace, Arc<Waiter>)> {
        let shard = self.shard_mut(ready.shard);
        let value_type = shard.type_of(ready.database, ready.hash, &ready.name, now);
        let arrival = place.map(|place| place.0.arrival);
        let first_of = |group| {
            let mut behind =
                shard.waits.waiting.behind(ready.database, ready.secret, group, arrival);
            behind.find(|(_, waiting)| waiting.name == ready.name)
        };
        let of_type = value_type.map(|it| [ANY_TYPE, it as u8]).into_iter().flatten();
        let for_lease = (!is_leased).then_some(KEY_OR_LEASE);
        let firsts = of_type.chain([STREAM_OR_END]).chain(for_lease).filter_map(first_of);
        let (registration, waiting) = firsts.min_by_key(|(first, _)| first.arrival)?;
        Some((QueuePlace(registration), Arc::clone(&waiting.waiter)))
    }

    /// Returns whether the key of `ready` is not there at `now`.
    ///
    /// # Panics
    /// When this guard lacks the shard of the key.
    pub fn is_absent(&mut self, ready: &ReadyKey, now: UnixMs) -> bool {
        let shard = self.shard_mut(ready.shard);
        shard.type_of(ready.database, ready.hash, &ready.name, now).is_none()
    }

    /// Removes a session that has been served from the queue of `ready`.
    pub fn leave_queue(&mut self, ready: &ReadyKey, place: QueuePlace) {
        self.shard_mut(ready.shard).waits.waiting.remove(place.0);
    }

    /// Makes the keys of a wait whose shards this guard holds ready again, for those behind it.
    pub fn renew_ready(&mut self, waits: &Waits, now: UnixMs) {
        for key in &waits.keys {
            if self.holds(key.shard) {
                self.note_there(key, now);
            }
        }
    }

    fn note_there(&mut self, key: &AwaitedKey, now: UnixMs) {
        let Registration { database, secret, group, .. } = key.registration;
        let shard = self.shard_mut(key.shard);
        let is_there = shard.type_of(database, key.hash, &key.name, now).is_some();
        if (is_there || minds_absence(group))
            && let Some(ready) = shard.waits.ready(database, key.shard, secret, &key.name)
        {
            self.recorder.note_ready(ready);
        }
    }
}

impl Keyspace {
    /// Returns the bytes that a wait for `names` takes beside its request; `keys` are those of the
    /// request.
    pub fn wait_bytes(names: &AwaitedNames, keys: &[Key<'_>]) -> u64 {
        let each = names.iter().map(|(_, index)| keys[index].bytes.len() + WAIT_BYTES);
        (each.sum::<usize>() + names.memory_bytes()) as u64
    }

    /// Makes `state` that of a wait that was served, and charges the reply until the wait ends.
    pub fn keep_served(&self, state: &mut WaitState, served: ServedReply) {
        self.charge(served.reply.len() as u64);
        *state = WaitState::Served(served);
    }

    /// Ends the wait of a session, where it waits, and returns what came of it where it was served
    /// before. Where the session had been told to run its request itself, and nobody behind it was
    /// served meanwhile, its keys are ready for those. Each shard is locked once, or once for 1,024
    /// of its keys. The caller holds no guard, and serves what [`Keyspace::take_unserved`] returns.
    pub fn end_wait(&self, waits: &mut Waits, now: UnixMs) -> Option<ServedReply> {
        let waiter = waits.current.take()?;
        let state = std::mem::replace(&mut *waiter.state(), WaitState::Closed);
        let mut keys = std::mem::take(&mut waits.keys);
        self.for_each_hold(&mut keys, |guard, key| {
            guard.shard_mut(key.shard).waits.waiting.remove(key.registration);
            if matches!(state, WaitState::Told { blocks_others: true }) {
                guard.note_there(key, now);
            }
        });
        self.discharge(std::mem::take(&mut waits.bytes));
        match state {
            WaitState::Served(served) => {
                self.discharge(served.reply.len() as u64);
                Some(served)
            }
            WaitState::Open | WaitState::Told { .. } => None,
            WaitState::Closed => unreachable!("a session that ends its wait forgets it"),
        }
    }

    /// Has a session that was told to run its request itself wait on, as it may not run it now:
    /// those of its keys that are there at `now` are left as ready, for it and for those behind it.
    /// Costs what [`Keyspace::end_wait`] does. The caller holds no guard.
    pub fn leave_unserved(&self, waits: &mut Waits, now: UnixMs) {
        let Some(waiter) = &waits.current else { return };
        // Before its keys are looked at: whoever makes one exist from here on serves it.
        *waiter.state() = WaitState::Open;
        self.for_each_hold(&mut waits.keys, |guard, key| guard.note_there(key, now));
    }

    /// Calls `act` with each of `keys`, which it sorts, under a guard of its shard: one for 1,024
    /// keys of a shard. What becomes ready is left unserved.
    fn for_each_hold(&self, keys: &mut [AwaitedKey], act: impl Fn(&mut Guard<'_>, &AwaitedKey)) {
        keys.sort_unstable_by_key(|key| (key.shard, key.registration));
        let of_shards = keys.chunk_by(|one, other| one.shard == other.shard);
        for keys in of_shards.flat_map(|keys| keys.chunks(KEYS_PER_HOLD_MAX)) {
            let mut guard = self.lock(keys[0].shard);
            keys.iter().for_each(|key| act(&mut guard, key));
        }
    }

    /// Leaves `ready` for whoever takes unserved keys next.
    pub fn add_unserved(&self, ready: ReadyKeys) {
        self.unserved.add(ready);
    }

    /// Returns whether [`Keyspace::take_unserved`] would return keys. Whoever writes asks once he
    /// holds no guard.
    #[inline]
    pub fn has_unserved(&self) -> bool {
        self.unserved.has_any.load(Ordering::Relaxed)
    }

    /// Returns the keys that were ready when the guards under which they became so were dropped,
    /// and that nobody has served yet, for the caller to serve.
    pub fn take_unserved(&self) -> ReadyKeys {
        let mut keys = self.unserved.lock();
        self.unserved.has_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *keys)
    }
}
