//! The entries of a stream: nodes in order, and what is known of all that ever were.

use std::sync::Arc;

use super::COUNT_MAX;
use super::id::StreamId;
use super::id_map::IdMap;
use super::node::{self, Head, Master};
use super::parts::StreamPart;
use crate::compact_limits::Limits;
use crate::element::Element;
use crate::heap_bytes;
use crate::listpack::{Listpack, element_bytes_max};
use crate::listpack_view::{At, ListpackView};
use crate::sorted_set::Direction;
use crate::walk::{Freed, Keeper, WalkPlace, Walked};

/// The most bytes of one node: what a listpack can have, and some.
const NODE_BYTES_MAX: u64 = 1 << 30;

/// The most bytes that a new node has room for.
const NODE_ROOM_BYTES_MAX: usize = 4096;

/// The entries of a stream.
#[derive(Default)]
pub struct Log {
    /// By the identity of the first entry that each was made for.
    nodes: IdMap<Listpack>,
    /// What the listpacks take.
    pack_bytes: u64,
    length: u64,
    first_id: StreamId,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
    walk: WalkPlace<LogWalk>,
}

/// How far a walk is. It has the nodes before `next`, and of those from there on up to `last` what
/// was kept for it.
struct LogWalk {
    next: StreamId,
    /// The last node that was there at the begin and is still; none where none is.
    last: Option<StreamId>,
    keeper: Arc<Keeper>,
}

/// What is known of the entries that ever were, beside those that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// The first entry that is there; zero where there is none.
    pub first_id: StreamId,
    /// The last identity that was given to an entry, or set.
    pub last_id: StreamId,
    /// The last of the entries that were deleted one by one.
    pub max_deleted_id: StreamId,
    /// How many entries were ever added, as far as anyone said: at least those that are there, at
    /// most `i64::MAX`.
    pub entries_added: u64,
}

/// Which entries go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// The first ones, until so many are left.
    ToLength(u64),
    /// Those before this.
    Before(StreamId),
}

/// How much trimming may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimBounds {
    /// Only whole nodes go.
    pub is_approximate: bool,
    /// So many entries go at most; 0 is any number.
    pub limit: u64,
}

impl TrimBounds {
    /// Exactly what was asked for.
    pub const EXACT: TrimBounds = TrimBounds { is_approximate: false, limit: 0 };
}

/// What becomes of an entry that a walk has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Remove,
    Keep,
    /// This one stays, and the walk ends.
    End,
}

/// Why an entry was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl Clone for Log {
    /// The nodes of the copy have no spare room.
    fn clone(&self) -> Log {
        let nodes = self.nodes.clone();
        let pack_bytes = nodes.range(StreamId::MIN).map(|(_, pack)| pack.memory_bytes()).sum();
        Log { nodes, pack_bytes, walk: WalkPlace::default(), ..*self }
    }
}

impl Log {
    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns what is known beside.
    #[inline]
    pub fn counters(&self) -> LogCounters {
        let Log { first_id, last_id, max_deleted_id, entries_added, .. } = *self;
        LogCounters { first_id, last_id, max_deleted_id, entries_added }
    }

    /// Returns the last identity that was given to an entry, or set.
    #[inline]
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// Returns the bytes of memory that it takes beside itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.nodes.memory_bytes() + self.pack_bytes
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the nodes, each a listpack with the identity that those of its entries build on.
    pub fn nodes(&self) -> impl Iterator<Item = (StreamId, ListpackView<'_>)> {
        self.nodes.range(StreamId::MIN).map(|(key, pack)| (key, pack.view()))
    }

    /// Returns the entries from `start` to `end`.
    #[inline]
    pub fn entries(&self, start: StreamId, end: StreamId, direction: Direction) -> Entries<'_> {
        Entries { log: self, start, end, direction, node: None, is_over: start > end }
    }

    /// Returns whether entry `id` is there.
    pub fn contains(&self, id: StreamId) -> bool {
        self.find(id).is_some()
    }

    /// Returns the last entry that is there.
    pub fn last_entry(&self) -> Option<StreamId> {
        if self.length == 0 {
            return None;
        }
        self.entries(StreamId::MIN, StreamId::MAX, Direction::Down).advance()
    }

    /// Returns at least how many entries are behind `id`, but no more than `most`: it counts whole
    /// nodes.
    pub fn count_behind(&self, id: StreamId, most: u64) -> u64 {
        let first = self.nodes.at_or_below(id).map_or(id, |(key, _)| key);
        let mut counts = self.nodes.range(first).map(|(_, pack)| node::master(pack.view()).live);
        let mut count = 0;
        while count < most
            && let Some(live) = counts.next()
        {
            count += live as u64;
        }
        count.min(most)
    }

    /// Returns whether an entry from `start` on was deleted by itself.
    pub fn has_gap_from(&self, start: StreamId) -> bool {
        self.length > 0 && !self.max_deleted_id.is_zero() && start <= self.max_deleted_id
    }

    /// Returns how many entries were added up to that of `id`, if that can be told.
    ///
    /// Source: Redis 7.2, `streamEstimateDistanceFromFirstEverEntry`.
    pub fn count_up_to(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.length == 0 && id <= self.last_id {
            return Some(self.entries_added);
        }
        if !id.is_zero() && id < self.max_deleted_id || id > self.last_id {
            return None;
        }
        if id == self.last_id {
            return Some(self.entries_added);
        }
        let has_no_gap = self.max_deleted_id.is_zero() || self.max_deleted_id < self.first_id;
        let before = self.entries_added.wrapping_sub(self.length);
        match () {
            () if !has_no_gap || id > self.first_id => None,
            () if id == self.first_id => Some(before.wrapping_add(1)),
            () => Some(before),
        }
    }

    /// Returns a bound of the memory that adding an entry of `parts` takes.
    pub fn growth_bound<'p>(parts: impl Iterator<Item = &'p [u8]>) -> u64 {
        /// A node with its growth in advance, and its place.
        const NODE_BYTES: u64 = 2 * 4096 + 1024;
        // Fields of a new node are there for the master entry, values grow by a quarter.
        let bytes: u64 = parts.map(|part| element_bytes_max(part.len()) as u64).sum();
        2 * bytes + NODE_BYTES
    }

    /// Adds entry `id`, which is behind the last; `parts` are its fields and values by turns.
    ///
    /// # Errors
    /// When the parts are too long.
    ///
    /// # Panics
    /// When `id` is not behind the last.
    pub fn add(&mut self, id: StreamId, parts: &[&[u8]], limits: &Limits) -> Result<(), TooLarge> {
        assert!(id > self.last_id, "entries come in order");
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        if bytes > NODE_BYTES_MAX {
            return Err(TooLarge);
        }
        let (pack_bytes, is_full) = match self.nodes.last_mut() {
            Some((_, pack)) if is_full(pack, bytes, limits) => {
                let before = pack.memory_bytes();
                pack.shrink();
                (self.pack_bytes - before + pack.memory_bytes(), true)
            }
            Some((key, pack)) => {
                keep(&self.walk, key, pack);
                let before = pack.memory_bytes();
                node::add_entry(pack, key, id, parts);
                (self.pack_bytes - before + pack.memory_bytes(), false)
            }
            None => (self.pack_bytes, true),
        };
        self.pack_bytes = pack_bytes;
        if is_full {
            self.add_node(id, parts);
        }
        if self.length == 0 {
            self.first_id = id;
        }
        self.length += 1;
        self.entries_added = (self.entries_added + 1).min(COUNT_MAX);
        self.last_id = id;
        Ok(())
    }

    #[cold]
    fn add_node(&mut self, id: StreamId, parts: &[&[u8]]) {
        // It will be as long as the one before it, which is full.
        let room = self.nodes.last().map_or(0, |(_, pack)| pack.bytes().len());
        let mut pack = node::new_node(parts, room.min(NODE_ROOM_BYTES_MAX));
        node::add_entry(&mut pack, id, id, parts);
        self.pack_bytes += pack.memory_bytes();
        if let Some(walk) = &mut self.walk.0
            && walk.last.is_some_and(|last| id <= last)
        {
            // Later ones have gone, and XSETID went back: what comes now was not there.
            walk.last = self.nodes.last().map(|(key, _)| key);
        }
        self.nodes.insert(id, pack);
    }

    /// Takes entry `id` out; returns whether it was there.
    pub fn remove(&mut self, id: StreamId) -> bool {
        let Some((key, at, head)) = self.find(id) else { return false };
        let pack = self.nodes.get_mut(key).expect("it was found");
        if node::master(pack.view()).live == 1 {
            self.remove_node(key);
        } else {
            keep(&self.walk, key, pack);
            let before = pack.memory_bytes();
            node::mark_deleted(pack, at, &head);
            node::count_deleted(pack, 1);
            self.pack_bytes = self.pack_bytes - before + pack.memory_bytes();
        }
        self.length -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if self.length == 0 || id == self.first_id {
            self.note_first();
        }
        true
    }

    /// Asks `choose` of each entry from `start` to `last` in order, and takes those out that it
    /// says: in one walk, whatever the length of the nodes.
    pub fn remove_where(
        &mut self,
        start: StreamId,
        last: StreamId,
        mut choose: impl FnMut(StreamId) -> Choice,
    ) {
        let mut next = self.nodes.at_or_below(start).map(|(key, _)| key).or(Some(start));
        while let Some(key) = next.and_then(|from| self.nodes.range(from).next()).map(|it| it.0)
            && key <= last
        {
            let has_ended = self.remove_of_node(key, start, last, &mut choose);
            next = key.next().filter(|_| !has_ended);
        }
        self.note_first();
    }

    /// As [`Log::remove_where`], of the node of `key`; returns whether the walk ends there.
    fn remove_of_node(
        &mut self,
        key: StreamId,
        start: StreamId,
        last: StreamId,
        choose: &mut impl FnMut(StreamId) -> Choice,
    ) -> bool {
        let pack = self.nodes.get_mut(key).expect("the caller has found it");
        let (before, master) = (pack.memory_bytes(), node::master(pack.view()));
        let mut at = node::first_entry(pack.view(), &master);
        let (mut removed, mut has_ended) = (0, false);
        while let Some(entry) = at.filter(|_| !has_ended) {
            let head = node::head(pack.view(), entry, key, &master);
            if head.id > last {
                break;
            }
            at = node::next_entry(pack.view(), &head);
            if head.id < start || !head.is_live() {
                continue;
            }
            match choose(head.id) {
                Choice::Remove => {
                    if removed == 0 {
                        keep(&self.walk, key, pack);
                    }
                    // The flags keep their width.
                    node::mark_deleted(pack, entry, &head);
                    removed += 1;
                    self.max_deleted_id = self.max_deleted_id.max(head.id);
                }
                Choice::Keep => {}
                Choice::End => has_ended = true,
            }
        }
        if removed > 0 {
            node::count_deleted(pack, removed);
        }
        self.pack_bytes = self.pack_bytes - before + pack.memory_bytes();
        if removed == master.live {
            self.remove_node(key);
        }
        self.length -= removed as u64;
        has_ended
    }

    fn remove_node(&mut self, key: StreamId) {
        let pack = self.nodes.remove(key).expect("the caller has found it");
        keep(&self.walk, key, &pack);
        self.pack_bytes -= pack.memory_bytes();
    }

    fn note_first(&mut self) {
        let first = self.entries(StreamId::MIN, StreamId::MAX, Direction::Up).advance();
        self.first_id = first.unwrap_or_default();
    }

    /// Takes entries out as `trim` and `bounds` say; returns how many, and tells `gone` of each, if
    /// it is given.
    ///
    /// Source: Redis 7.2, `streamTrim`.
    pub fn trim(
        &mut self,
        trim: Trim,
        bounds: TrimBounds,
        mut gone: Option<&mut dyn FnMut(StreamId)>,
    ) -> u64 {
        let mut removed = 0;
        while let Some((key, pack)) = self.nodes.first() {
            let live = node::master(pack.view()).live as u64;
            let is_done = matches!(trim, Trim::ToLength(length) if self.length <= length);
            if is_done || bounds.limit > 0 && removed + live > bounds.limit {
                break;
            }
            let goes_whole = match trim {
                Trim::ToLength(length) => self.length - live >= length,
                Trim::Before(id) => last_id_of(pack.view(), key) < id,
            };
            if goes_whole {
                if let Some(gone) = &mut gone {
                    live_entries(pack.view(), key).for_each(&mut **gone);
                }
                self.remove_node(key);
                self.length -= live;
                removed += live;
                continue;
            }
            if !bounds.is_approximate {
                removed += self.trim_node(key, trim, gone);
            }
            break;
        }
        if removed > 0 {
            self.note_first();
        }
        removed
    }

    /// Marks entries of the node of `key` as deleted, some of which stay.
    fn trim_node(
        &mut self,
        key: StreamId,
        trim: Trim,
        mut gone: Option<&mut dyn FnMut(StreamId)>,
    ) -> u64 {
        let excess = match trim {
            Trim::ToLength(length) => self.length - length,
            Trim::Before(_) => u64::MAX,
        };
        let pack = self.nodes.get_mut(key).expect("the caller has found it");
        let before = pack.memory_bytes();
        let master = node::master(pack.view());
        let mut at = node::first_entry(pack.view(), &master);
        let mut removed = 0;
        while let Some(entry) = at.filter(|_| removed < excess) {
            let head = node::head(pack.view(), entry, key, &master);
            if matches!(trim, Trim::Before(id) if head.id >= id) {
                break;
            }
            at = node::next_entry(pack.view(), &head);
            if head.is_live() {
                if removed == 0 {
                    keep(&self.walk, key, pack);
                }
                // The flags keep their width.
                node::mark_deleted(pack, entry, &head);
                removed += 1;
                if let Some(gone) = &mut gone {
                    gone(head.id);
                }
            }
        }
        if removed > 0 {
            node::count_deleted(pack, removed as i64);
        }
        self.pack_bytes = self.pack_bytes - before + pack.memory_bytes();
        self.length -= removed;
        removed
    }

    /// Sets the last identity, that of the last entry or a later one, and what else is given.
    pub fn set_last(
        &mut self,
        last_id: StreamId,
        entries_added: Option<u64>,
        max_deleted_id: Option<StreamId>,
    ) {
        self.last_id = last_id;
        self.entries_added = entries_added.unwrap_or(self.entries_added);
        self.max_deleted_id = max_deleted_id.unwrap_or(self.max_deleted_id);
        // The next entry may get an identity below those of deleted entries at the end, which would
        // then be out of order.
        while let Some((key, _)) = self.nodes.last().filter(|(key, _)| *key > last_id) {
            self.remove_node(key);
        }
        if let Some((key, pack)) = self.nodes.last_mut() {
            let before = pack.memory_bytes();
            if last_id_of(pack.view(), key) > last_id {
                keep(&self.walk, key, pack);
            }
            while last_id_of(pack.view(), key) > last_id {
                node::drop_last(pack);
            }
            self.pack_bytes = self.pack_bytes - before + pack.memory_bytes();
        }
    }

    /// Adds a node of Redis's format, whoever made it, behind all others; `None` where it is none.
    pub fn add_foreign_node(&mut self, key: StreamId, pack: Listpack) -> Option<()> {
        let (live, first, last) = node::validate(&pack, key)?;
        let previous = self.nodes.last().map(|(key, pack)| last_id_of(pack.view(), key));
        if previous.is_some_and(|previous| previous >= key || previous >= first) {
            return None;
        }
        self.pack_bytes += pack.memory_bytes();
        self.nodes.insert(key, pack);
        self.length += live;
        self.last_id = last;
        Some(())
    }

    /// Says what is known beside, of entries that were all added by [`Log::add_foreign_node`]:
    /// without `counters` as much as `last_id` and the entries say. `None` where one of them is
    /// behind `last_id`, or `counters` do not count them.
    pub fn complete(&mut self, last_id: StreamId, counters: Option<LogCounters>) -> Option<()> {
        if last_id < self.last_id {
            return None;
        }
        self.note_first();
        let first_id = self.first_id;
        let counters = counters.unwrap_or(LogCounters {
            first_id,
            last_id,
            max_deleted_id: StreamId::MIN,
            entries_added: self.length,
        });
        if !(self.length..=COUNT_MAX).contains(&counters.entries_added) {
            return None;
        }
        self.last_id = last_id;
        self.max_deleted_id = counters.max_deleted_id;
        self.entries_added = counters.entries_added;
        Some(())
    }

    /// Returns the node, the place and the head of entry `id`, if it is there.
    fn find(&self, id: StreamId) -> Option<(StreamId, At, Head)> {
        let mut entries = self.entries(id, id, Direction::Up);
        entries.advance()?;
        let node = entries.node.expect("it has an entry");
        Some((node.key, node.entry, node.head))
    }
}

/// Gives the walk that goes on, if one does, the node of `key`, which is about to change.
#[inline]
fn keep(walk: &WalkPlace<LogWalk>, key: StreamId, pack: &Listpack) {
    if let Some(walk) = &walk.0 {
        walk.keep(key, pack);
    }
}

impl LogWalk {
    #[cold]
    fn keep(&self, key: StreamId, pack: &Listpack) {
        if self.next <= key && self.last.is_some_and(|last| key <= last) {
            self.keeper.keep_packs(std::iter::once((key.number(), (key, pack))), put_node);
        }
    }
}

/// Appends the node of `key` as a part.
fn put_node((key, pack): (StreamId, &Listpack), out: &mut Vec<u8>) {
    StreamPart::Node { key, pack: pack.bytes() }.put(out);
}

impl Walked for Log {
    fn begin(&mut self, keeper: Arc<Keeper>) -> u64 {
        let last = self.nodes.last().map(|(key, _)| key);
        self.walk.0 = Some(Box::new(LogWalk { next: StreamId::MIN, last, keeper }));
        heap_bytes(size_of::<LogWalk>())
    }

    fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.walk.0.as_ref().map(|walk| &walk.keeper)
    }

    fn step(&mut self, is_due: &mut dyn FnMut() -> bool, out: &mut Vec<u8>) -> bool {
        let Some(walk) = &mut self.walk.0 else { return true };
        let mut kept = walk.keeper.kept();
        loop {
            let left = self.nodes.range(walk.next).next();
            let left = left.filter(|(key, _)| walk.last.is_some_and(|last| *key <= last));
            // What was kept is in place of what is there now.
            let last_kept = left.map_or(u128::MAX, |(key, _)| key.number());
            let number = match (kept.take_pack(last_kept), left) {
                (Some((number, parts)), _) => {
                    out.extend_from_slice(&parts);
                    number
                }
                (None, Some((key, pack))) => {
                    put_node((key, pack), out);
                    key.number()
                }
                (None, None) => break,
            };
            let Some(next) = StreamId::from_number(number).next() else { break };
            walk.next = next;
            if is_due() {
                return false;
            }
        }
        drop(kept);
        self.walk.0 = None;
        true
    }

    fn end(&mut self) -> Option<Freed> {
        self.walk.0 = None;
        None
    }
}

/// Returns the entries that the node of `key` has.
fn live_entries(pack: ListpackView<'_>, key: StreamId) -> impl Iterator<Item = StreamId> {
    let master = node::master(pack);
    let heads = std::iter::successors(node::first_entry(pack, &master), move |at| {
        node::next_entry(pack, &node::head(pack, *at, key, &master))
    });
    let heads = heads.map(move |at| node::head(pack, at, key, &master));
    heads.filter(Head::is_live).map(|head| head.id)
}

/// Returns whether an entry of `bytes` bytes is to begin a node of its own behind `pack`.
#[inline]
fn is_full(pack: &Listpack, bytes: u64, limits: &Limits) -> bool {
    let bytes_max = match limits.stream_node_bytes {
        0 => NODE_BYTES_MAX,
        bytes => bytes.min(NODE_BYTES_MAX),
    };
    let master = node::master(pack.view());
    let entries = (master.live + master.deleted) as u64;
    pack.bytes().len() as u64 + bytes >= bytes_max
        || limits.stream_node_entries > 0 && entries >= limits.stream_node_entries
}

fn last_id_of(pack: ListpackView<'_>, key: StreamId) -> StreamId {
    node::head(pack, node::last_entry(pack), key, &node::master(pack)).id
}

/// Entries one after the other, the fields of each on demand.
#[derive(Clone)]
pub struct Entries<'a> {
    log: &'a Log,
    start: StreamId,
    end: StreamId,
    direction: Direction,
    node: Option<NodeCursor<'a>>,
    is_over: bool,
}

/// An entry of a node.
#[derive(Clone, Copy)]
struct NodeCursor<'a> {
    key: StreamId,
    pack: ListpackView<'a>,
    master: Master,
    /// Where the entry is.
    entry: At,
    head: Head,
    /// The next field of the master entry, where the fields are its.
    field: At,
    /// The next element of the entry.
    content: At,
    /// Fields that were not read.
    left: usize,
}

impl<'a> NodeCursor<'a> {
    #[inline]
    fn at(key: StreamId, pack: ListpackView<'a>, master: Master, entry: At) -> NodeCursor<'a> {
        let head = node::head(pack, entry, key, &master);
        let (field, content, left) = (master.fields, head.content, head.field_count);
        NodeCursor { key, pack, master, entry, head, field, content, left }
    }

    /// Returns the node of `key` at the first entry from `start` on, deleted or not.
    fn seek(key: StreamId, pack: ListpackView<'a>, start: StreamId) -> Option<NodeCursor<'a>> {
        let master = node::master(pack);
        let last = NodeCursor::at(key, pack, master, node::last_entry(pack));
        if last.head.id < start {
            return None;
        }
        if start <= key || !is_in_later_half(start, key, last.head.id) {
            let entry = node::first_entry(pack, &master).expect("a node has entries");
            let mut cursor = NodeCursor::at(key, pack, master, entry);
            while cursor.head.id < start {
                cursor = cursor.next()?;
            }
            return Some(cursor);
        }
        let mut cursor = last;
        while let Some(previous) = cursor.previous()
            && previous.head.id >= start
        {
            cursor = previous;
        }
        Some(cursor)
    }

    /// As [`NodeCursor::seek`], at the last entry up to `end`.
    fn seek_back(key: StreamId, pack: ListpackView<'a>, end: StreamId) -> Option<NodeCursor<'a>> {
        let master = node::master(pack);
        let mut cursor = NodeCursor::at(key, pack, master, node::last_entry(pack));
        while cursor.head.id > end {
            cursor = cursor.previous()?;
        }
        Some(cursor)
    }

    /// Returns the entry behind this one; what was read of this one is not read again.
    #[inline]
    fn next(&self) -> Option<NodeCursor<'a>> {
        let elements = if self.head.has_same_fields() { self.left } else { 2 * self.left };
        let end = (0..=elements).fold(self.content.0, |at, _| self.pack.end_of(At(at)));
        let entry = self.pack.existing(end)?;
        Some(NodeCursor::at(self.key, self.pack, self.master, entry))
    }

    fn previous(&self) -> Option<NodeCursor<'a>> {
        let entry = node::previous_entry(self.pack, self.entry)?;
        Some(NodeCursor::at(self.key, self.pack, self.master, entry))
    }
}

/// Returns whether `id` is nearer to `last` than to `first`, as far as times tell, or numbers where
/// the times are one.
fn is_in_later_half(id: StreamId, first: StreamId, last: StreamId) -> bool {
    match first.ms == last.ms {
        true => id.sequence - first.sequence >= (last.sequence - first.sequence) / 2,
        false => id.ms - first.ms >= (last.ms - first.ms) / 2,
    }
}

impl<'a> Entries<'a> {
    /// Goes to the next entry that is there.
    #[inline]
    pub fn advance(&mut self) -> Option<StreamId> {
        if self.is_over {
            return None;
        }
        loop {
            let next = match (&self.node, self.direction) {
                (Some(node), Direction::Up) => node.next(),
                (Some(node), Direction::Down) => node.previous(),
                (None, _) => None,
            };
            self.node = match next {
                Some(node) => Some(node),
                None => self.next_node(),
            };
            let Some(node) = &self.node else {
                self.is_over = true;
                return None;
            };
            let is_beyond = match self.direction {
                Direction::Up => node.head.id > self.end,
                Direction::Down => node.head.id < self.start,
            };
            if is_beyond {
                self.is_over = true;
                return None;
            }
            if node.head.is_live() {
                return Some(node.head.id);
            }
        }
    }

    /// Returns the first entry of the next node that may have one.
    fn next_node(&self) -> Option<NodeCursor<'a>> {
        let nodes = &self.log.nodes;
        match (&self.node, self.direction) {
            (Some(node), Direction::Up) => {
                let (key, pack) = nodes.range(node.key.next()?).next()?;
                NodeCursor::seek(key, pack.view(), key)
            }
            (Some(node), Direction::Down) => {
                let (key, pack) = nodes.at_or_below(node.key.previous()?)?;
                NodeCursor::seek_back(key, pack.view(), StreamId::MAX)
            }
            (None, Direction::Up) => {
                let below = nodes.at_or_below(self.start);
                let found =
                    below.and_then(|(key, pack)| NodeCursor::seek(key, pack.view(), self.start));
                found.or_else(|| {
                    let (key, pack) = nodes.range(self.start).next()?;
                    NodeCursor::seek(key, pack.view(), self.start)
                })
            }
            (None, Direction::Down) => {
                let (key, pack) = nodes.at_or_below(self.end)?;
                NodeCursor::seek_back(key, pack.view(), self.end).or_else(|| {
                    let (key, pack) = nodes.at_or_below(key.previous()?)?;
                    NodeCursor::seek_back(key, pack.view(), self.end)
                })
            }
        }
    }

    /// Returns how many fields of the entry have not been read.
    #[inline]
    pub fn field_count(&self) -> usize {
        self.node.as_ref().map_or(0, |node| node.left)
    }

    /// Reads the next field of the entry and its value.
    #[inline]
    pub fn next_field(&mut self) -> Option<(Element<'a>, Element<'a>)> {
        let node = self.node.as_mut().filter(|node| node.left > 0)?;
        node.left -= 1;
        let pack = node.pack;
        let from = if node.head.has_same_fields() { &mut node.field } else { &mut node.content };
        let field = pack.get(*from);
        *from = At(pack.end_of(*from));
        let value = pack.get(node.content);
        node.content = At(pack.end_of(node.content));
        Some((field, value))
    }
}
