//! A group of consumers: how far it has read, and which entries are pending with whom.
//!
//! *Not here*: how a walk leads through one (`group/walk.rs`).

mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::UnixMs;

use super::COUNT_MAX;
use super::id::StreamId;
use super::id_map::IdMap;
use super::log::Log;
use crate::chunked::Chunked;
use crate::heap_bytes;
use crate::walk::WalkPlace;
use walk::GroupWalk;

/// A bound of what a name takes in the tree of names.
pub(super) const NAME_TREE_BYTES: u64 = 80;
/// What is before the bytes of a name that is shared.
const SHARED_BYTES: usize = 16;

/// A group of consumers.
#[derive(Default)]
pub struct Group {
    last_id: StreamId,
    /// How many entries were read, if that is known, up to [`COUNT_MAX`]; see
    /// [`Log::count_up_to`].
    entries_read: Option<u64>,
    pending: IdMap<Pending>,
    /// How many of these are with nobody.
    released_count: usize,
    names: BTreeMap<Arc<[u8]>, ConsumerIndex>,
    consumers: Chunked<Option<Consumer>>,
    free: Chunked<ConsumerIndex>,
    /// What names and the entries that are pending with each consumer take.
    consumer_bytes: u64,
    walk: WalkPlace<GroupWalk>,
}

/// Which consumer of its group one is, for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerIndex(u32);

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// With whom; none if it was released.
    pub consumer: Option<ConsumerIndex>,
    /// When it was last delivered.
    pub delivered_at: UnixMs,
    /// How often; at most `i64::MAX`.
    pub delivery_count: u64,
}

impl Pending {
    /// Returns how often it was delivered once that has happened `more` times again.
    pub fn delivered_again(&self, more: u64) -> u64 {
        self.delivery_count.saturating_add(more).min(COUNT_MAX)
    }
}

/// A consumer of a group.
#[derive(Clone)]
pub struct Consumer {
    name: Arc<[u8]>,
    /// When it last tried to read.
    pub seen_at: UnixMs,
    /// When it last got something, if it did.
    pub active_at: Option<UnixMs>,
    pending: IdMap<()>,
}

impl Consumer {
    /// Returns its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns how many entries are pending with it.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Returns the first entry that is pending with it, from `from` on.
    pub fn first_pending(&self, from: StreamId) -> Option<StreamId> {
        self.pending(from).next()
    }

    /// Returns the entries that are pending with it, from `from` on.
    pub fn pending(&self, from: StreamId) -> impl Iterator<Item = StreamId> {
        self.pending.range(from).map(|(id, ())| id)
    }
}

impl Clone for Group {
    fn clone(&self) -> Group {
        let Group { last_id, entries_read, released_count, .. } = *self;
        let mut copy = Group {
            last_id,
            entries_read,
            released_count,
            pending: self.pending.clone(),
            names: self.names.clone(),
            consumers: self.consumers.clone(),
            free: self.free.clone(),
            consumer_bytes: 0,
            walk: WalkPlace::default(),
        };
        copy.consumer_bytes = copy.consumers().map(|(_, consumer)| bytes_of(consumer)).sum();
        copy
    }
}

impl Group {
    /// Returns a group without consumers that has read up to `last_id`.
    pub fn new(last_id: StreamId, entries_read: Option<u64>) -> Group {
        Group { last_id, entries_read, ..Group::default() }
    }

    /// Returns the bytes of memory that it takes beside itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.pending.memory_bytes()
            + self.consumers.memory_bytes()
            + self.free.memory_bytes()
            + self.consumer_bytes
    }

    /// Returns a bound of the memory that `entry_count` more pending entries take.
    pub const fn pending_growth_bound(entry_count: u64) -> u64 {
        /// Each may divide a piece of both maps, or begin one between two that are full.
        const ENTRY_BYTES: u64 = 384;
        growth_bound(entry_count, ENTRY_BYTES)
    }

    /// As [`Group::pending_growth_bound`], for entries that the group has not read.
    pub fn delivery_growth_bound(&self, entry_count: u64) -> u64 {
        /// They fill the pieces of both maps where nothing behind them is pending.
        const ENTRY_BYTES: u64 = 60;
        match self.last_pending() <= Some(self.last_id) {
            true => growth_bound(entry_count, ENTRY_BYTES),
            false => Group::pending_growth_bound(entry_count),
        }
    }

    /// As [`Group::pending_growth_bound`], for entries that are pending with other consumers.
    pub const fn claim_growth_bound(entry_count: u64) -> u64 {
        /// Each may divide a piece of the map of its new consumer.
        const ENTRY_BYTES: u64 = 160;
        growth_bound(entry_count, ENTRY_BYTES)
    }

    /// Returns a bound of the memory that the consumer called `name` takes where it is not there.
    pub fn consumer_growth(&self, name: &[u8]) -> u64 {
        /// A piece of the table of consumers.
        const TABLE_BYTES: u64 = 64 * 1024;
        match self.find_consumer(name) {
            Some(_) => 0,
            None => TABLE_BYTES + NAME_TREE_BYTES + heap_bytes(SHARED_BYTES + name.len()),
        }
    }

    /// Returns the last entry that it has read.
    #[inline]
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// Returns how many entries it has read, if that is known.
    pub fn entries_read(&self) -> Option<u64> {
        self.entries_read
    }

    /// Sets how far it has read.
    pub fn set_position(&mut self, last_id: StreamId, entries_read: Option<u64>) {
        self.last_id = last_id;
        self.entries_read = entries_read;
    }

    /// Moves the last entry that it has read to `id`, where that is behind it; returns whether.
    pub fn move_to(&mut self, id: StreamId) -> bool {
        let moves = id > self.last_id;
        self.last_id = self.last_id.max(id);
        moves
    }

    /// Notes that it has read entry `id` of `log`, unless it had before.
    ///
    /// Source: Redis 7.2, `streamReplyWithRange`.
    #[inline]
    pub fn note_read(&mut self, log: &Log, id: StreamId) {
        if id <= self.last_id {
            return;
        }
        self.entries_read = match self.entries_read {
            Some(read) if !log.has_gap_from(id) => Some((read + 1).min(COUNT_MAX)),
            read if log.counters().entries_added == 0 => read,
            _ => log.count_up_to(id),
        };
        self.last_id = id;
    }

    /// Returns how many entries of `log` it has not read, if that is known.
    ///
    /// Source: Redis 7.2, `streamReplyWithCGLag`.
    pub fn lag(&self, log: &Log) -> Option<i64> {
        let added = log.counters().entries_added;
        if added == 0 {
            return Some(0);
        }
        let read = match self.entries_read {
            Some(read) if !log.has_gap_from(self.last_id) => read,
            _ => log.count_up_to(self.last_id)?,
        };
        Some(added.wrapping_sub(read) as i64)
    }

    /// Returns how many entries are pending.
    #[inline]
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Returns how many entries are pending with nobody.
    pub fn released_count(&self) -> usize {
        self.released_count
    }

    /// Returns how the entry `id` is pending, if it is.
    #[inline]
    pub fn pending_entry(&self, id: StreamId) -> Option<Pending> {
        self.pending.get(id).copied()
    }

    /// Returns the entries that are pending, from `from` on.
    pub fn pending(&self, from: StreamId) -> impl Iterator<Item = (StreamId, Pending)> {
        self.pending.range(from).map(|(id, pending)| (id, *pending))
    }

    /// Returns the last entry that is pending.
    pub fn last_pending(&self) -> Option<StreamId> {
        self.pending.last().map(|(id, _)| id)
    }

    /// Makes entry `id` pending so, with whomever it was before.
    pub fn set_pending(&mut self, id: StreamId, pending: Pending) {
        if self.walk.0.is_some() {
            self.keep_pending(id, pending.consumer);
        }
        let former = match self.pending.get_mut(id) {
            Some(entry) => Some(std::mem::replace(entry, pending).consumer),
            None => {
                self.pending.insert(id, pending);
                None
            }
        };
        if former == Some(pending.consumer) {
            return;
        }
        if let Some(former) = former {
            self.leave(former, id);
        }
        match pending.consumer {
            Some(consumer) => self.change_consumer(consumer, |it| it.pending.insert(id, ())),
            None => self.released_count += 1,
        }
    }

    /// Ends that entry `id` is pending; returns whether it was.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        if self.walk.0.is_some() && self.pending.get(id).is_some() {
            self.keep_pending(id, None);
        }
        let Some(pending) = self.pending.remove(id) else { return false };
        self.leave(pending.consumer, id);
        true
    }

    /// Ends that entry `id` is with `former`, or with nobody.
    #[inline]
    fn leave(&mut self, former: Option<ConsumerIndex>, id: StreamId) {
        match former {
            Some(former) => self.change_consumer(former, |consumer| consumer.pending.remove(id)),
            None => self.released_count -= 1,
        }
    }

    /// Returns how many consumers there are.
    pub fn consumer_count(&self) -> usize {
        self.names.len()
    }

    /// Returns the consumers in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = (ConsumerIndex, &Consumer)> {
        self.names.values().map(|&index| (index, self.consumer(index)))
    }

    /// Returns the consumer that is called `name`, if there is one.
    #[inline]
    pub fn find_consumer(&self, name: &[u8]) -> Option<ConsumerIndex> {
        self.names.get(name).copied()
    }

    /// Returns the consumer of `index`.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn consumer(&self, index: ConsumerIndex) -> &Consumer {
        self.consumers.get(index.0 as usize).as_ref().expect("an index is that of a consumer")
    }

    /// Sets when the consumer of `index` tried to read, and where it `is_active` that it got
    /// something then.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn note_seen(&mut self, index: ConsumerIndex, now: UnixMs, is_active: bool) {
        if self.walk.0.is_some() {
            self.keep_consumer(index);
        }
        let consumer = self.consumer_mut(index);
        consumer.seen_at = now;
        if is_active {
            consumer.active_at = Some(now);
        }
    }

    /// Sets when the consumer of `index` was seen and active.
    ///
    /// # Panics
    /// When there is none.
    pub fn set_times(&mut self, index: ConsumerIndex, seen_at: UnixMs, active_at: Option<UnixMs>) {
        if self.walk.0.is_some() {
            self.keep_consumer(index);
        }
        let consumer = self.consumer_mut(index);
        (consumer.seen_at, consumer.active_at) = (seen_at, active_at);
    }

    /// Adds a consumer that is called `name`, as nobody is, and was seen at `now`.
    ///
    /// # Panics
    /// When there is one.
    pub fn add_consumer(&mut self, name: &[u8], now: UnixMs) -> ConsumerIndex {
        let name: Arc<[u8]> = name.into();
        if let Some(walk) = &mut self.walk.0 {
            walk.note_added(&name);
        }
        let consumer = Consumer {
            name: name.clone(),
            seen_at: now,
            active_at: None,
            pending: IdMap::default(),
        };
        self.consumer_bytes += bytes_of(&consumer);
        let index = match self.free.pop() {
            Some(index) => {
                *self.consumers.get_mut(index.0 as usize) = Some(consumer);
                index
            }
            None => {
                self.consumers.push(Some(consumer));
                let last = self.consumers.len() - 1;
                ConsumerIndex(u32::try_from(last).expect("consumers take memory"))
            }
        };
        assert!(self.names.insert(name, index).is_none(), "names are different");
        index
    }

    /// Removes the consumer of `index` and ends that entries are pending with it; returns how many.
    ///
    /// # Panics
    /// When there is none.
    pub fn remove_consumer(&mut self, index: ConsumerIndex) -> usize {
        if self.walk.0.is_some() {
            self.keep_all_of(index);
        }
        let slot = self.consumers.get_mut(index.0 as usize);
        let consumer = slot.take().expect("an index is that of a consumer");
        for (id, ()) in consumer.pending.range(StreamId::MIN) {
            self.pending.remove(id);
        }
        self.consumer_bytes -= bytes_of(&consumer);
        self.names.remove(&consumer.name);
        if self.names.is_empty() {
            (self.consumers, self.free) = (Chunked::default(), Chunked::default());
        } else {
            self.free.push(index);
        }
        consumer.pending.len()
    }

    #[inline]
    fn consumer_mut(&mut self, index: ConsumerIndex) -> &mut Consumer {
        self.consumers.get_mut(index.0 as usize).as_mut().expect("an index is that of a consumer")
    }

    #[inline]
    fn change_consumer<R>(
        &mut self,
        index: ConsumerIndex,
        change: impl FnOnce(&mut Consumer) -> R,
    ) {
        let consumer = self.consumer_mut(index);
        let before = consumer.pending.memory_bytes();
        change(consumer);
        let after = consumer.pending.memory_bytes();
        self.consumer_bytes = self.consumer_bytes - before + after;
    }
}

/// Returns a bound of what `entry_count` more values of `entry_bytes` take in the maps.
const fn growth_bound(entry_count: u64, entry_bytes: u64) -> u64 {
    /// The last pieces of both maps, which grow in advance.
    const PIECES_BYTES: u64 = 2048;
    match entry_count {
        0 => 0,
        _ => entry_count.saturating_mul(entry_bytes).saturating_add(PIECES_BYTES),
    }
}

/// Returns the bytes that `consumer` takes beside its place in the table.
fn bytes_of(consumer: &Consumer) -> u64 {
    let name = heap_bytes(SHARED_BYTES + consumer.name.len());
    NAME_TREE_BYTES + name + consumer.pending.memory_bytes()
}
