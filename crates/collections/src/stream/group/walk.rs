//! A walk through a group as it is at one moment, while it is changed.
//!
//! What is pending in the group comes in the order of the identities. From then on that an entry is
//! about to change it is kept how it was pending, or that it was not, unless it is behind the last
//! that was: what a group reads and acknowledges meanwhile costs nothing. Behind these entries come
//! the consumers in the order of their names, each as it was, with the entries that it had: those
//! that it has and that have not changed, and those that were kept.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use base::UnixMs;

use super::super::StreamPart;
use super::{
    Consumer, ConsumerIndex, Group, IdMap, NAME_TREE_BYTES, Pending, SHARED_BYTES, StreamId,
};
use crate::heap_bytes;
use crate::walk::{Growth, Keeper};

/// Entries that are looked at in one piece.
const PIECE_ITEMS: usize = 64;
/// A bound of what a consumer that is kept takes beside its name and its entries: the nodes of the
/// tree are five elevenths full at least.
const CONSUMER_BYTES: u64 = NAME_TREE_BYTES + 3 * size_of::<KeptConsumer>() as u64;

/// How far a walk through a group is, and what the group keeps for it.
pub(in crate::stream) struct GroupWalk {
    keeper: Arc<Keeper>,
    place: Place,
    /// How far the group had read at the begin.
    last_id: StreamId,
    entries_read: Option<u64>,
    /// How many there were at the begin.
    pending_count: u64,
    released_count: u64,
    consumer_count: u64,
    /// The last entry that was pending at the begin; none where none was.
    last_pending: Option<StreamId>,
    /// How entries were pending at the begin that have changed since; none that was not pending.
    kept: IdMap<Option<Pending>>,
    /// How consumers were that have changed since, by their names; none that were not there. Those
    /// that the walk is through need not be here.
    consumers: BTreeMap<Arc<[u8]>, Option<KeptConsumer>>,
    /// What these take.
    consumer_bytes: u64,
}

/// What comes next.
enum Place {
    /// The group itself.
    Begin,
    /// What is pending, from an entry on.
    Pending(StreamId),
    /// The number of consumers.
    Consumers,
    /// What was pending with nobody, from an entry on.
    Released(StreamId),
    /// The first consumer, or the one behind that of a name.
    Behind(Option<Arc<[u8]>>),
    /// What was pending with the consumer of a name, from an entry on.
    Owned(Arc<[u8]>, StreamId),
}

/// A consumer as it was at the begin.
struct KeptConsumer {
    seen_at: UnixMs,
    active_at: Option<UnixMs>,
    pending_count: u64,
    /// Those of its entries that have changed since.
    changed: IdMap<()>,
}

impl Group {
    /// Returns whether it keeps how it was.
    pub(in crate::stream) fn is_walked(&self) -> bool {
        self.walk.0.is_some()
    }

    /// Begins to keep how it is now.
    pub(in crate::stream) fn begin_walk(&mut self, keeper: &Arc<Keeper>) {
        let walk = GroupWalk {
            keeper: Arc::clone(keeper),
            place: Place::Begin,
            last_id: self.last_id,
            entries_read: self.entries_read,
            pending_count: self.pending_count() as u64,
            released_count: self.released_count as u64,
            consumer_count: self.consumer_count() as u64,
            last_pending: self.last_pending(),
            kept: IdMap::default(),
            consumers: BTreeMap::new(),
            consumer_bytes: 0,
        };
        keeper.note_kept(Growth::Copied(walk.bytes()));
        self.walk.0 = Some(Box::new(walk));
    }

    /// Returns what it takes to keep how it was, as the keeper was told.
    pub(in crate::stream) fn kept_bytes(&self) -> u64 {
        self.walk.0.as_ref().map_or(0, |walk| walk.bytes())
    }

    /// Keeps no longer how it was.
    pub(in crate::stream) fn end_walk(&mut self) -> Option<Box<GroupWalk>> {
        self.walk.0.take()
    }

    /// Keeps how entry `id` is pending, which is about to change, and how the consumers are with
    /// whom it is and will be.
    #[cold]
    pub(super) fn keep_pending(&mut self, id: StreamId, gainer: Option<ConsumerIndex>) {
        self.keep(|walk, group| {
            walk.keep_pending(group, id);
            if let Some(gainer) = gainer {
                walk.keep_consumer(group.consumer(gainer));
            }
        });
    }

    /// Keeps how a consumer is that is about to change.
    #[cold]
    pub(super) fn keep_consumer(&mut self, index: ConsumerIndex) {
        self.keep(|walk, group| {
            walk.keep_consumer(group.consumer(index));
        });
    }

    /// Keeps how a consumer is that is about to be removed, and its entries.
    #[cold]
    pub(super) fn keep_all_of(&mut self, index: ConsumerIndex) {
        self.keep(|walk, group| {
            let consumer = group.consumer(index);
            walk.keep_consumer(consumer);
            consumer.pending(StreamId::MIN).for_each(|id| walk.keep_pending(group, id));
        });
    }

    fn keep(&mut self, keep: impl FnOnce(&mut GroupWalk, &Group)) {
        let Some(mut walk) = self.walk.0.take() else { return };
        if !walk.keeper.is_given_up() {
            let before = walk.bytes();
            keep(&mut walk, self);
            walk.note_growth(before);
        }
        self.walk.0 = Some(walk);
    }

    /// Appends the next few parts of what it was, which is called `name`, to `out`; returns whether
    /// there is none left.
    pub(in crate::stream) fn step(&mut self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let mut walk = self.walk.0.take().expect("it was begun");
        let next = walk.put(self, name, out);
        let is_through = next.is_none();
        walk.place = next.unwrap_or(Place::Behind(None));
        self.walk.0 = Some(walk);
        is_through
    }
}

impl GroupWalk {
    fn bytes(&self) -> u64 {
        heap_bytes(size_of::<GroupWalk>()) + self.kept.memory_bytes() + self.consumer_bytes
    }

    fn note_growth(&self, before: u64) {
        let grown = self.bytes() - before;
        if grown > 0 {
            self.keeper.note_kept(Growth::Copied(grown));
        }
    }

    fn keep_pending(&mut self, group: &Group, id: StreamId) {
        if Some(id) > self.last_pending || self.kept.get(id).is_some() {
            return;
        }
        let before = group.pending_entry(id);
        self.kept.insert(id, before);
        // Whoever has what has not changed since was there at the begin.
        let owner = before.and_then(|before| before.consumer);
        let Some(owner) = owner.and_then(|owner| self.keep_consumer(group.consumer(owner))) else {
            return;
        };
        let bytes = owner.changed.memory_bytes();
        owner.changed.insert(id, ());
        self.consumer_bytes += owner.changed.memory_bytes() - bytes;
    }

    /// Keeps how `consumer` is, unless that is kept; returns that, where it was there at the begin
    /// and the walk is not through it.
    fn keep_consumer(&mut self, consumer: &Consumer) -> Option<&mut KeptConsumer> {
        let name = &consumer.name;
        if self.is_through(name) {
            return None;
        }
        if !self.consumers.contains_key(name) {
            let kept = KeptConsumer {
                seen_at: consumer.seen_at,
                active_at: consumer.active_at,
                pending_count: consumer.pending_count() as u64,
                changed: IdMap::default(),
            };
            self.insert(name, Some(kept));
        }
        self.consumers.get_mut(name)?.as_mut()
    }

    /// Notes that a consumer called `name` is about to be added.
    #[cold]
    pub fn note_added(&mut self, name: &Arc<[u8]>) {
        let is_needed = !self.is_through(name) && !self.consumers.contains_key(name);
        if is_needed && !self.keeper.is_given_up() {
            let before = self.bytes();
            self.insert(name, None);
            self.note_growth(before);
        }
    }

    fn insert(&mut self, name: &Arc<[u8]>, kept: Option<KeptConsumer>) {
        self.consumer_bytes += CONSUMER_BYTES + heap_bytes(SHARED_BYTES + name.len());
        self.consumers.insert(Arc::clone(name), kept);
    }

    /// Returns whether it has given all of the consumer called `name`.
    fn is_through(&self, name: &[u8]) -> bool {
        match &self.place {
            Place::Behind(last) => last.as_ref().is_some_and(|last| *name <= **last),
            Place::Owned(current, _) => *name < **current,
            Place::Begin | Place::Pending(_) | Place::Consumers | Place::Released(_) => false,
        }
    }

    /// Appends what comes next to `out`, of `group`, which is called `name`; returns what comes
    /// behind that.
    fn put(&self, group: &Group, name: &[u8], out: &mut Vec<u8>) -> Option<Place> {
        let next = match &self.place {
            Place::Begin => {
                let GroupWalk { last_id, entries_read, pending_count, .. } = *self;
                StreamPart::Group { name, last_id, entries_read, pending_count }.put(out);
                Place::Pending(StreamId::MIN)
            }
            Place::Pending(from) => {
                self.put_pending(group, *from, out).map_or(Place::Consumers, Place::Pending)
            }
            Place::Consumers => self.put_consumer_count(group, out),
            Place::Released(from) => match self.put_released(group, *from, out) {
                Some(next) => Place::Released(next),
                None => Place::Owned(Arc::default(), StreamId::MIN),
            },
            Place::Behind(last) => {
                let name = self.next_consumer(group, last.as_deref())?;
                match self.consumer_at_begin(group, &name, 0) {
                    Some(consumer) => {
                        consumer.put(out);
                        Place::Owned(name, StreamId::MIN)
                    }
                    None => Place::Behind(Some(name)),
                }
            }
            Place::Owned(name, from) => match self.put_owned(group, (name, *from), out) {
                Some(next) => Place::Owned(Arc::clone(name), next),
                None => Place::Behind(Some(Arc::clone(name))),
            },
        };
        Some(next)
    }

    fn put_pending(&self, group: &Group, from: StreamId, out: &mut Vec<u8>) -> Option<StreamId> {
        let part = |id, pending: Pending| {
            let Pending { delivered_at, delivery_count, .. } = pending;
            StreamPart::Pending { id, delivered_at, delivery_count }
        };
        let current = group.pending(from).map(|(id, pending)| (id, Some(part(id, pending))));
        let kept = self.kept.range(from).map(|(id, pending)| (id, pending.map(|it| part(id, it))));
        self.put_piece(current, kept, out)
    }

    fn put_consumer_count(&self, group: &Group, out: &mut Vec<u8>) -> Place {
        let released = self.released_count;
        if released == 0 {
            StreamPart::Consumers(self.consumer_count).put(out);
            return Place::Behind(None);
        }
        let (seen_at, active_at) = (UnixMs(0), None);
        let nobody =
            StreamPart::Consumer { name: b"", seen_at, active_at, pending_count: released };
        let unnamed = self.consumer_at_begin(group, b"", released);
        StreamPart::Consumers(self.consumer_count + u64::from(unnamed.is_none())).put(out);
        unnamed.unwrap_or(nobody).put(out);
        Place::Released(StreamId::MIN)
    }

    fn put_released(&self, group: &Group, from: StreamId, out: &mut Vec<u8>) -> Option<StreamId> {
        let part = |id, pending: Pending| {
            (id, pending.consumer.is_none().then_some(StreamPart::Owned(id)))
        };
        let current = group.pending(from).map(|(id, pending)| part(id, pending));
        let kept = self.kept.range(from).map(|(id, pending)| match pending {
            Some(pending) => part(id, *pending),
            None => (id, None),
        });
        self.put_piece(current, kept, out)
    }

    fn put_owned(
        &self,
        group: &Group,
        (name, from): (&[u8], StreamId),
        out: &mut Vec<u8>,
    ) -> Option<StreamId> {
        let part = |id| Some(StreamPart::Owned(id));
        let current = group.find_consumer(name).map(|index| group.consumer(index).pending(from));
        // What has changed may have been with another one.
        let is_kept = |id| self.kept.get(id).is_some();
        let current = current.into_iter().flatten();
        let current = current.map(|id| (id, part(id).filter(|_| !is_kept(id))));
        let kept = self.consumers.get(name).and_then(Option::as_ref);
        let kept = kept.into_iter().flat_map(|kept| kept.changed.range(from));
        self.put_piece(current, kept.map(|(id, ())| (id, part(id))), out)
    }

    /// Appends the next few parts of what is `current` and was there at the begin, and what was
    /// `kept` in place of it, to `out`; both are in order. Returns the entry that comes next.
    fn put_piece<'p>(
        &self,
        current: impl Iterator<Item = (StreamId, Option<StreamPart<'p>>)>,
        kept: impl Iterator<Item = (StreamId, Option<StreamPart<'p>>)>,
        out: &mut Vec<u8>,
    ) -> Option<StreamId> {
        let current = current.take_while(|(id, _)| Some(*id) <= self.last_pending);
        let (mut current, mut kept) = (current.peekable(), kept.peekable());
        let mut last = None;
        for _ in 0..PIECE_ITEMS {
            let kept_id = kept.peek().map(|(id, _)| *id);
            let replaced = current.peek().is_some_and(|(id, _)| Some(*id) == kept_id);
            let comes_first =
                current.peek().is_some_and(|(id, _)| kept_id.is_none_or(|it| *id < it));
            if replaced {
                current.next();
            }
            let Some((id, part)) = (if comes_first { current.next() } else { kept.next() }) else {
                break;
            };
            if let Some(part) = part {
                part.put(out);
            }
            last = Some(id);
        }
        last?.next()
    }

    /// Returns the name of the first consumer behind that called `last`: one that is there, or was.
    fn next_consumer(&self, group: &Group, last: Option<&[u8]>) -> Option<Arc<[u8]>> {
        let bounds = (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let current = group.names.range::<[u8], _>(bounds).next().map(|(name, _)| name);
        let kept = self.consumers.range::<[u8], _>(bounds).next().map(|(name, _)| name);
        current.into_iter().chain(kept).min().cloned()
    }

    /// Returns the consumer called `name` as it was at the begin, if it was there, with `more`
    /// entries than it had.
    fn consumer_at_begin<'n>(
        &self,
        group: &Group,
        name: &'n [u8],
        more: u64,
    ) -> Option<StreamPart<'n>> {
        let (seen_at, active_at, count) = match self.consumers.get(name) {
            Some(kept) => {
                let kept = kept.as_ref()?;
                (kept.seen_at, kept.active_at, kept.pending_count)
            }
            None => {
                let consumer = group.consumer(group.find_consumer(name)?);
                (consumer.seen_at, consumer.active_at, consumer.pending_count() as u64)
            }
        };
        let pending_count = count + more;
        Some(StreamPart::Consumer { name, seen_at, active_at, pending_count })
    }
}
