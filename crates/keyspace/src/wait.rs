//! Waiting for keys: who is to be told when a key is there, in the order in which they came.
//!
//! A session that finds none of its keys registers under the very guard under which it looked, so
//! that no key comes unseen in between. Whatever makes a key exist, or changes one that exists,
//! says so in one place (`Place::tell`, and SWAPDB for all its keys): where somebody awaits it, the
//! key is ready. Ready keys are served after the command, after the EXEC where it is one, while the
//! guard is still held: a key that is gone by then was never there.
//!
//! A wait of several keys is registered with each of them, and whoever ends it first, a key or the
//! session itself, ends it alone: that is one atomic step. The session is told without a guard, by
//! the number of its wait, so that word of one wait does not end the next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use base::{DatabaseIndex, Key, ShardIndex, UnixMs};

use crate::guard::Guard;
use crate::keyspace::Keyspace;
use crate::registered::{Registered, Registration};
use crate::shard::{Shard, is_expired};

/// Bytes that one key of a wait costs beside its own, in shard and session together.
const WAIT_BYTES: usize = 224;

/// What one session waits for.
///
/// A wait ends through [`Keyspace::end_wait`]; a session waits for one thing at a time.
#[derive(Debug, Default)]
pub struct Waits {
    /// The number of the latest wait.
    number: u64,
    current: Option<Arc<Wait>>,
    keys: Vec<AwaitedKey>,
}

/// Where a key of a wait is registered.
#[derive(Debug)]
struct AwaitedKey {
    shard: ShardIndex,
    registration: Registration,
    bytes: usize,
}

/// One wait, as the session and the shards of its keys share it.
#[derive(Debug)]
struct Wait {
    session: u64,
    number: u64,
    /// How it ended: with this key, or without any. Who sets it has ended it.
    end: OnceLock<Option<Arc<[u8]>>>,
}

impl Waits {
    /// Returns whether the session waits, and its wait has this number.
    pub fn is_current(&self, number: u64) -> bool {
        self.current.is_some() && self.number == number
    }
}

/// A session whose wait a key has ended, and that is to be told so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// The number of the session.
    pub session: u64,
    /// The number of its wait.
    pub wait: u64,
}

/// Sessions to be told.
#[derive(Default)]
pub(crate) struct ServedList {
    sessions: Mutex<Vec<Served>>,
    has_any: AtomicBool,
}

/// Who awaits the keys of one shard.
#[derive(Debug, Default)]
pub(crate) struct WaitTable {
    waiting: Registered<Waiting>,
    /// Awaited keys that were seen to be there and have not been served.
    ready: Vec<Ready>,
}

#[derive(Debug)]
struct Waiting {
    hash: u64,
    key: Arc<[u8]>,
    wait: Arc<Wait>,
    /// The key is among those that are ready; set at the first who awaits it.
    is_ready: bool,
}

#[derive(Debug)]
struct Ready {
    database: DatabaseIndex,
    hash: u64,
    secret: u64,
    key: Arc<[u8]>,
    now: UnixMs,
}

impl WaitTable {
    /// Returns whether nobody awaits any key: the one branch that a write pays.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Notes that the key `name`, whose secret hash is `secret`, is there at `now`; returns whether
    /// somebody awaits it.
    #[cold]
    pub fn note_ready(
        &mut self,
        database: DatabaseIndex,
        secret: u64,
        name: &[u8],
        now: UnixMs,
    ) -> bool {
        let Some(first) = self.first(database, secret, name) else { return false };
        if !std::mem::replace(&mut first.is_ready, true) {
            let (hash, key) = (first.hash, Arc::clone(&first.key));
            self.ready.push(Ready { database, hash, secret, key, now });
        }
        true
    }

    /// Returns who awaits a key first.
    fn first(&mut self, database: DatabaseIndex, secret: u64, name: &[u8]) -> Option<&mut Waiting> {
        let mut alike = self.waiting.of(database, secret).map(|(_, waiting)| waiting);
        alike.find(|waiting| *waiting.key == *name)
    }

    /// Takes those who await `ready` out, in the order in which they came.
    fn take(&mut self, ready: &Ready) -> Vec<Waiting> {
        let alike = self.waiting.of(ready.database, ready.secret);
        let all: Vec<Registration> = alike
            .filter(|(_, waiting)| waiting.key == ready.key)
            .map(|(registration, _)| registration)
            .collect();
        all.into_iter().filter_map(|registration| self.waiting.remove(registration)).collect()
    }
}

impl Shard {
    /// Notes which awaited keys of `database` are there at `now`, now that it has got other
    /// contents; returns whether any is.
    pub fn note_all_ready(&mut self, database: DatabaseIndex, now: UnixMs) -> bool {
        let all = self.waits.waiting.of_database(database);
        let all: Vec<_> =
            all.map(|(it, waiting)| (it.secret, waiting.hash, Arc::clone(&waiting.key))).collect();
        let mut has_ready = false;
        for (secret, hash, key) in all {
            if self.is_there(database, hash, &key, now) {
                has_ready |= self.waits.note_ready(database, secret, &key, now);
            }
        }
        has_ready
    }

    /// Ends the waits for the keys that are ready and still there, and appends them to `served`.
    fn serve(&mut self, served: &mut Vec<Served>) {
        for ready in std::mem::take(&mut self.waits.ready) {
            let Ready { database, hash, secret, ref key, now } = ready;
            if !self.is_there(database, hash, key, now) {
                let first = self.waits.first(database, secret, key);
                first.expect("nobody leaves while the shard is held").is_ready = false;
                continue;
            }
            for Waiting { key, wait, .. } in self.waits.take(&ready) {
                if wait.end.set(Some(key)).is_ok() {
                    served.push(Served { session: wait.session, wait: wait.number });
                }
            }
        }
    }

    fn is_there(&self, database: DatabaseIndex, hash: u64, key: &[u8], now: UnixMs) -> bool {
        let Some(part) = self.database(database) else { return false };
        part.table.find(hash, key).is_some_and(|id| !is_expired(&part.table.entry(id), now))
    }
}

impl Guard<'_> {
    /// Registers session `session`, which found none of `keys` in `database` under this guard, to
    /// be told when one is there.
    ///
    /// # Panics
    /// When the session waits already, or this guard lacks the shard of a key.
    pub fn begin_wait(
        &mut self,
        waits: &mut Waits,
        session: u64,
        database: DatabaseIndex,
        keys: &[Key<'_>],
    ) {
        assert!(waits.current.is_none(), "a session waits for one thing at a time");
        waits.number += 1;
        let wait = Arc::new(Wait { session, number: waits.number, end: OnceLock::new() });
        let mut charged = 0;
        for key in keys {
            let (name, wait) = (key.bytes.into(), Arc::clone(&wait));
            let waiting = Waiting { hash: key.hash, key: name, wait, is_ready: false };
            let secret = self.keyspace().secret_hasher().hash(key.bytes);
            let table = &mut self.shard_mut(key.shard).waits;
            let registration = table.waiting.add(database, secret, waiting);
            let bytes = key.bytes.len() + WAIT_BYTES;
            charged += bytes as u64;
            waits.keys.push(AwaitedKey { shard: key.shard, registration, bytes });
        }
        waits.current = Some(wait);
        self.keyspace().charge(charged);
    }

    /// Ends the waits for keys that have become ready since the last call, unless they belong to
    /// an atomic record, which is not complete yet.
    #[inline]
    pub fn serve_waits(&mut self) {
        if self.recorder.has_ready() && !self.recorder.is_atomic() {
            self.serve_ready();
        }
    }

    #[cold]
    fn serve_ready(&mut self) {
        self.recorder.take_ready();
        let mut served = Vec::new();
        self.for_each_shard(|shard| shard.serve(&mut served));
        if !served.is_empty() {
            self.keyspace().served.add(&served);
        }
    }
}

impl ServedList {
    fn add(&self, served: &[Served]) {
        let mut sessions = self.lock();
        sessions.extend_from_slice(served);
        self.has_any.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Served>> {
        self.sessions.lock().expect("no holder of the served sessions panics")
    }
}

impl Keyspace {
    /// Ends the wait of a session, where it waits, and returns the key that has ended it before,
    /// if one has. The caller holds no guard.
    pub fn end_wait(&self, waits: &mut Waits) -> Option<Arc<[u8]>> {
        let wait = waits.current.take()?;
        let end = wait.end.get_or_init(|| None).clone();
        let mut charged = 0;
        for AwaitedKey { shard, registration, bytes } in std::mem::take(&mut waits.keys) {
            self.lock(shard).shard_mut(shard).waits.waiting.remove(registration);
            charged += bytes as u64;
        }
        self.discharge(charged);
        end
    }

    /// Returns the sessions whose waits keys have ended since the last call, and that nobody has
    /// told yet; one load where there are none. Whoever writes asks once he holds no guard, and
    /// tells them.
    #[inline]
    pub fn take_served(&self) -> Vec<Served> {
        if !self.served.has_any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut sessions = self.served.lock();
        self.served.has_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *sessions)
    }
}
