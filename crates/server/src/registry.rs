//! The connected clients, as CLIENT LIST shows them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::UnixMs;
use command::ClientInfo;
use engine::Session;
use keyspace::WatchMark;
use sys::socket::Peer;

/// What others may know of one client. Its worker keeps it up to date.
pub struct ClientRecord {
    origin: Origin,
    /// When the client sent something last, in milliseconds since the Unix epoch.
    active_at: AtomicI64,
    output: OutputRecord,
    created: UnixMs,
    known: Mutex<Known>,
}

/// What changes with some requests only.
#[derive(Debug)]
struct Known {
    info: ClientInfo,
    watches: WatchMark,
}

/// The replies of one client. It changes with every turn, so that it is no part of what the lock
/// guards.
#[derive(Debug, Default)]
struct OutputRecord {
    waiting_bytes: AtomicUsize,
    buffer_bytes: AtomicUsize,
    sent_at_once_bytes_max: AtomicUsize,
}

impl ClientRecord {
    /// Notes that the client has sent something at `now`.
    #[inline]
    pub fn set_active(&self, now: UnixMs) {
        self.active_at.store(now.0, Ordering::Relaxed);
    }

    /// Returns when the client sent something last.
    pub fn active_at(&self) -> UnixMs {
        UnixMs(self.active_at.load(Ordering::Relaxed))
    }

    /// Notes that `waiting` bytes of replies wait for room, in a buffer of `buffer` bytes. For the
    /// client's worker.
    #[inline]
    pub fn set_output(&self, waiting: usize, buffer: usize) {
        self.output.waiting_bytes.store(waiting, Ordering::Relaxed);
        self.output.buffer_bytes.store(buffer, Ordering::Relaxed);
    }

    /// Notes that `bytes` are to be sent at once. For the client's worker.
    #[inline]
    pub fn note_send(&self, bytes: usize) {
        // One writer: a load and a store, where an atomic maximum would lock the cache line.
        if bytes > self.output.sent_at_once_bytes_max.load(Ordering::Relaxed) {
            self.output.sent_at_once_bytes_max.store(bytes, Ordering::Relaxed);
        }
    }

    /// Replaces what is known by what `session` and `change` say. `total_bytes` goes without the
    /// output buffer.
    pub fn update(&self, session: &Session, change: impl FnOnce(&mut ClientInfo)) {
        let mut known = self.known();
        known.watches = session.watch_mark();
        session.state.describe(&mut known.info, session.state.created);
        change(&mut known.info);
    }

    /// Returns the client's line of CLIENT LIST as of `now`.
    fn snapshot(&self, now: UnixMs) -> ClientInfo {
        let known = self.known();
        let (mut info, has_changed_watch) = (known.info.clone(), known.watches.is_dirty());
        drop(known);
        let seconds_since = |then: UnixMs| (now.0 - then.0).max(0) / 1000;
        info.age_s = seconds_since(self.created);
        info.idle_s = seconds_since(self.active_at());
        info.output_bytes = self.output.waiting_bytes.load(Ordering::Relaxed);
        info.reply_buffer_bytes = self.output.buffer_bytes.load(Ordering::Relaxed);
        info.reply_buffer_bytes_max = self.output.sent_at_once_bytes_max.load(Ordering::Relaxed);
        info.total_bytes += info.reply_buffer_bytes;
        info.has_changed_watch = has_changed_watch;
        info
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder of a client's information panics")
    }
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This process on this host, through the unix socket.
    Unix(Peer),
    /// On this host, over TCP.
    Loopback,
    /// Elsewhere.
    Remote,
}

/// All connected clients.
#[derive(Default)]
pub struct Registry {
    clients: Mutex<BTreeMap<u64, Arc<ClientRecord>>>,
    latest_id: AtomicU64,
    count: AtomicUsize,
}

impl Registry {
    /// Returns a number that no client of this server had before; the first is 1.
    pub fn next_id(&self) -> u64 {
        self.latest_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts a client in, unless there are `max` already. Every success is to be followed by one
    /// [`Registry::leave`].
    pub fn enter(&self, max: usize) -> bool {
        let more = |count: usize| (count < max).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts a client out.
    pub fn leave(&self) {
        let before = self.count.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a client leaves once");
    }

    /// Returns the number of clients.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns true when no client is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a client that was counted in.
    pub fn add(&self, info: ClientInfo, origin: Origin, now: UnixMs) -> Arc<ClientRecord> {
        let id = info.id;
        let record = Arc::new(ClientRecord {
            origin,
            active_at: AtomicI64::new(now.0),
            output: OutputRecord::default(),
            created: now,
            known: Mutex::new(Known { info, watches: WatchMark::default() }),
        });
        self.clients().insert(id, Arc::clone(&record));
        record
    }

    /// Removes client `id`.
    pub fn remove(&self, id: u64) {
        self.clients().remove(&id);
    }

    /// Returns all clients as of `now`, by ascending number.
    pub fn all(&self, now: UnixMs) -> Vec<ClientInfo> {
        let records: Vec<Arc<ClientRecord>> = self.clients().values().cloned().collect();
        records.iter().map(|record| record.snapshot(now)).collect()
    }

    /// Returns client `id` as of `now`.
    pub fn one(&self, id: u64, now: UnixMs) -> Option<ClientInfo> {
        let record = self.clients().get(&id).cloned();
        record.map(|record| record.snapshot(now))
    }

    /// Returns the address of client `id`.
    pub fn address(&self, id: u64) -> Option<String> {
        let record = self.clients().get(&id).cloned()?;
        Some(record.known().info.address.clone())
    }

    /// Returns whether client `id` is on this host.
    pub fn is_local(&self, id: u64) -> bool {
        self.clients().get(&id).is_some_and(|record| record.origin != Origin::Remote)
    }

    /// Returns the process of client `id`, if it came through the unix socket.
    pub fn peer(&self, id: u64) -> Option<Peer> {
        match self.clients().get(&id)?.origin {
            Origin::Unix(peer) => Some(peer),
            _ => None,
        }
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientRecord>>> {
        self.clients.lock().expect("no holder of the registry panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_counted_up_to_the_most() {
        let registry = Registry::default();
        assert!(registry.enter(2) && registry.enter(2) && !registry.enter(2));
        registry.leave();
        assert!(registry.enter(2));
        assert_eq!(registry.len(), 2);
    }

    #[test]
    fn clients_are_listed_by_number_with_their_age() {
        let registry = Registry::default();
        for id in [registry.next_id(), registry.next_id()] {
            let origin = if id == 1 { Origin::Loopback } else { Origin::Remote };
            registry.add(ClientInfo { id, ..ClientInfo::default() }, origin, UnixMs(1_000));
        }
        registry.clients().get(&2).unwrap().set_active(UnixMs(3_500));
        let all = registry.all(UnixMs(5_000));
        let ages: Vec<(u64, i64, i64)> =
            all.iter().map(|info| (info.id, info.age_s, info.idle_s)).collect();
        assert_eq!(ages, [(1, 4, 4), (2, 4, 1)]);
        assert!(registry.is_local(1) && !registry.is_local(2) && !registry.is_local(3));
        registry.remove(1);
        assert!(registry.one(1, UnixMs(0)).is_none());
    }
}
