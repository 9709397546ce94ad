//! The connected clients, as CLIENT LIST shows them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use base::UnixMs;
use command::{Attendance, ClientInfo};
use engine::Session;
use keyspace::WatchMark;
use sys::socket::Peer;

use crate::connection::CloseReason;
use crate::wait_claim::{WaitCounts, WaitMark};

/// What others may know of one client. Its worker keeps it up to date.
pub struct ClientRecord {
    origin: ClientOrigin,
    /// When the client sent something last, in milliseconds since the Unix epoch.
    active_at: AtomicI64,
    output: OutputRecord,
    /// Its private memory in bytes.
    memory_bytes: AtomicUsize,
    /// Bytes of values that its replies refer to.
    referenced_bytes: AtomicUsize,
    created: UnixMs,
    /// The worker that serves it.
    worker: usize,
    /// What it waits for.
    wait: WaitMark,
    /// Another session has ended it; its worker is about to learn of it.
    end_reason: OnceLock<CloseReason>,
    /// CLIENT NO-TOUCH, as its session with the arena is to follow it.
    no_touch: Arc<AtomicBool>,
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
    /// What of it is beyond the reply buffer, where any waits: pieces and bytes.
    list_len: AtomicUsize,
    list_bytes: AtomicUsize,
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

    /// Notes that it takes `bytes` of private memory, and that its replies refer to values of
    /// `referenced` bytes. For the client's worker.
    #[inline]
    pub fn set_memory(&self, bytes: usize, referenced: usize) {
        self.memory_bytes.store(bytes, Ordering::Relaxed);
        self.referenced_bytes.store(referenced, Ordering::Relaxed);
    }

    /// Returns the bytes that it takes or keeps others from freeing.
    fn claimed_bytes(&self) -> u64 {
        let referenced = self.referenced_bytes.load(Ordering::Relaxed);
        (self.memory_bytes.load(Ordering::Relaxed) + referenced) as u64
    }

    /// Returns the worker that serves it.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Returns whether another session has ended it.
    #[inline]
    pub fn is_ended(&self) -> bool {
        self.end_reason().is_some()
    }

    /// Returns why another session has ended it, if one has.
    #[inline]
    pub fn end_reason(&self) -> Option<CloseReason> {
        self.end_reason.get().copied()
    }

    /// Returns what it waits for.
    pub fn wait(&self) -> &WaitMark {
        &self.wait
    }

    /// Notes that `waiting` bytes of replies wait for room, in a buffer of `buffer` bytes. For the
    /// client's worker.
    #[inline]
    pub fn set_output(&self, waiting: usize, buffer: usize) {
        self.output.waiting_bytes.store(waiting, Ordering::Relaxed);
        self.output.buffer_bytes.store(buffer, Ordering::Relaxed);
    }

    /// Notes that of the replies that wait, `bytes` in `len` pieces are beyond the reply buffer;
    /// followed by a [`ClientRecord::set_output`] of all that wait. For the client's worker.
    pub fn set_output_list(&self, len: usize, bytes: usize) {
        self.output.list_len.store(len, Ordering::Relaxed);
        self.output.list_bytes.store(bytes, Ordering::Relaxed);
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
        self.no_touch.store(session.state.no_touch, Ordering::Relaxed);
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
        self.output.describe(&mut info);
        info.reply_buffer_bytes = self.output.buffer_bytes.load(Ordering::Relaxed);
        info.reply_buffer_bytes_max = self.output.sent_at_once_bytes_max.load(Ordering::Relaxed);
        info.total_bytes += info.reply_buffer_bytes;
        info.total_bytes += self.referenced_bytes.load(Ordering::Relaxed);
        info.has_changed_watch = has_changed_watch;
        info.is_blocked = self.wait.is_on();
        info
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder of a client's information panics")
    }
}

impl OutputRecord {
    /// Adds what waits to `info`.
    fn describe(&self, info: &mut ClientInfo) {
        let waiting = self.waiting_bytes.load(Ordering::Relaxed);
        if waiting > 0 {
            // The worker may have begun to write anew since.
            info.output_list_bytes = self.list_bytes.load(Ordering::Relaxed).min(waiting);
            info.output_list_len = self.list_len.load(Ordering::Relaxed);
        }
        info.output_buffer_bytes = waiting - info.output_list_bytes;
    }
}

impl Attendance for ClientRecord {
    /// Its worker may not have noted yet that the wait has begun.
    fn may_serve(&self) -> bool {
        !self.is_ended() && !self.wait.is_claimed()
    }

    fn waits_on(&self) {
        self.wait.unclaim();
    }

    fn was_served(&self) {
        self.wait.serve();
    }

    fn place(&self) -> usize {
        self.worker
    }
}

impl fmt::Debug for ClientRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientRecord").field("worker", &self.worker).finish_non_exhaustive()
    }
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientOrigin {
    /// This process on this host, to which descriptors can be sent.
    Process(Peer),
    /// On this host.
    Local,
    /// Elsewhere.
    Remote,
}

/// All connected clients.
#[derive(Default)]
pub struct Registry {
    clients: Mutex<BTreeMap<u64, Arc<ClientRecord>>>,
    latest_id: AtomicU64,
    count: AtomicUsize,
    /// How many wait, and how many of them for no longer than some time.
    pub waits: Arc<WaitCounts>,
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

    /// Adds a client that was counted in, for `worker` to serve.
    pub fn add(
        &self,
        info: ClientInfo,
        origin: ClientOrigin,
        worker: usize,
        now: UnixMs,
    ) -> Arc<ClientRecord> {
        let id = info.id;
        let record = Arc::new(ClientRecord {
            origin,
            active_at: AtomicI64::new(now.0),
            output: OutputRecord::default(),
            memory_bytes: AtomicUsize::new(0),
            referenced_bytes: AtomicUsize::new(0),
            created: now,
            worker,
            wait: WaitMark::new(Arc::clone(&self.waits)),
            end_reason: OnceLock::new(),
            no_touch: Arc::default(),
            known: Mutex::new(Known { info, watches: WatchMark::default() }),
        });
        self.clients().insert(id, Arc::clone(&record));
        record
    }

    /// Returns the worker of client `id`, if it is there.
    pub fn worker(&self, id: u64) -> Option<usize> {
        self.clients().get(&id).map(|record| record.worker)
    }

    /// Removes client `id` and counts it out, unless [`Registry::end`] has done so.
    pub fn remove(&self, id: u64) {
        self.take(id);
    }

    /// Removes client `id` and counts it out, though it is still served, and returns what was
    /// known of it: its worker is to be told. A turn that it has before then ends for the same
    /// `reason`.
    pub fn end(&self, id: u64, reason: CloseReason) -> Option<Arc<ClientRecord>> {
        let record = self.take(id)?;
        record.end_reason.set(reason).expect("a client is taken out of the registry once");
        // For all who look from outside it waits no longer; nor may a wake-up find it.
        record.wait.end();
        Some(record)
    }

    /// Takes the right to end the wait of client `id`, and returns the worker that is to be told;
    /// none where it does not wait in a blocking command.
    pub fn claim(&self, id: u64) -> Option<usize> {
        let record = self.clients().get(&id).cloned()?;
        record.wait.claim_unserved().then_some(record.worker)
    }

    /// Returns the largest clients without which the rest takes less than `limit` bytes, as far as
    /// there are such that need not be kept: CLIENT NO-EVICT.
    pub fn surplus(&self, limit: u64) -> Vec<u64> {
        let clients = self.clients();
        let sizes = clients.iter().map(|(&id, record)| (record.claimed_bytes(), id, record));
        let mut sizes: Vec<_> = sizes.collect();
        let mut total: u64 = sizes.iter().map(|(bytes, ..)| bytes).sum();
        if total < limit {
            return Vec::new();
        }
        sizes.sort_unstable_by_key(|(bytes, id, _)| std::cmp::Reverse((*bytes, *id)));
        let mut surplus = Vec::new();
        for (bytes, id, record) in sizes {
            if total < limit {
                break;
            }
            if !record.known().info.no_evict {
                total -= bytes;
                surplus.push(id);
            }
        }
        surplus
    }

    fn take(&self, id: u64) -> Option<Arc<ClientRecord>> {
        let record = self.clients().remove(&id)?;
        self.leave();
        Some(record)
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
        self.clients().get(&id).is_some_and(|record| record.origin != ClientOrigin::Remote)
    }

    /// Returns the process of client `id`, if descriptors can be sent to it.
    pub fn peer(&self, id: u64) -> Option<Peer> {
        match self.clients().get(&id)?.origin {
            ClientOrigin::Process(peer) => Some(peer),
            _ => None,
        }
    }

    /// Returns the switch of client `id` that says whether what it reads leaves no touch.
    pub fn no_touch(&self, id: u64) -> Option<Arc<AtomicBool>> {
        self.clients().get(&id).map(|record| Arc::clone(&record.no_touch))
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientRecord>>> {
        self.clients.lock().expect("no holder of the registry panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_claim::WaitReason;

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
            assert!(registry.enter(2));
            let origin = if id == 1 { ClientOrigin::Local } else { ClientOrigin::Remote };
            registry.add(ClientInfo { id, ..ClientInfo::default() }, origin, 0, UnixMs(1_000));
        }
        registry.clients().get(&2).unwrap().set_active(UnixMs(3_500));
        let all = registry.all(UnixMs(5_000));
        let ages: Vec<(u64, i64, i64)> =
            all.iter().map(|info| (info.id, info.age_s, info.idle_s)).collect();
        assert_eq!(ages, [(1, 4, 4), (2, 4, 1)]);
        assert!(registry.is_local(1) && !registry.is_local(2) && !registry.is_local(3));
        registry.remove(1);
        assert!(registry.one(1, UnixMs(0)).is_none());
        assert_eq!(registry.len(), 1);
    }

    #[test]
    fn the_largest_clients_are_surplus_save_for_those_that_are_kept() {
        let registry = Registry::default();
        for (id, bytes) in [(1, 500), (2, 300), (3, 200), (4, 900)] {
            assert!(registry.enter(9));
            let info = ClientInfo { id, no_evict: id == 4, ..ClientInfo::default() };
            registry.add(info, ClientOrigin::Local, 0, UnixMs(0)).set_memory(bytes - 100, 100);
        }
        assert_eq!(registry.surplus(1901), []);
        assert_eq!(registry.surplus(1900), [1]);
        assert_eq!(registry.surplus(1400), [1, 2]);
        assert_eq!(registry.surplus(100), [1, 2, 3]);
    }

    #[test]
    fn ended_client_is_gone_at_once_and_counted_out_once() {
        let registry = Registry::default();
        assert!(registry.enter(1));
        let id = registry.next_id();
        let info = ClientInfo { id, ..ClientInfo::default() };
        let record = registry.add(info, ClientOrigin::Local, 3, UnixMs(0));
        record.wait().begin(WaitReason::Blocked, true);
        assert!(registry.waits.all() == 1 && record.may_serve());
        let reason = CloseReason::Evicted;
        assert_eq!(registry.end(id, reason).map(|record| record.worker()), Some(3));
        assert_eq!(record.end_reason(), Some(reason));
        assert!(!record.may_serve() && registry.end(id, CloseReason::Killed).is_none());
        assert!(registry.claim(id).is_none() && !record.wait().claim());
        assert_eq!((registry.len(), registry.waits.all(), registry.waits.timed()), (0, 0, 0));
        registry.remove(id);
        assert_eq!(registry.len(), 0);
    }
}
