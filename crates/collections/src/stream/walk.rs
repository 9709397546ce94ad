//! A walk through a stream: through its entries, as `log.rs` says, then through its groups in the
//! order of their names, each piece by piece (`group/walk.rs`).
//!
//! A group keeps how it was from when it is about to change, or the walk comes to it. One that is
//! removed is left to the walk; one that was added since the begin is none of the walk's.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::{Group, Groups, Parts, Stream, StreamPart};
use crate::heap_bytes;
use crate::walk::{Freed, Growth, Keeper, KeptBytes, Walked};

/// A bound of what a name takes in a tree of names without values, or in a list.
const NAME_BYTES: u64 = 64;

/// How far a walk through a stream is, as far as its groups.
pub(super) struct StreamWalk {
    keeper: Arc<Keeper>,
    /// What there was at the begin beside nodes and groups, as a part; empty once it was given.
    counters: Vec<u8>,
    /// The walk is through the groups whose names are before this one.
    next: Box<[u8]>,
    /// Groups that keep how they were, some of which may have been removed since.
    begun: Vec<Box<[u8]>>,
    /// Names of groups that were added since, and may have been removed again.
    added: BTreeSet<Box<[u8]>>,
    /// Groups that were removed since, with the bytes that each takes.
    removed: BTreeMap<Box<[u8]>, (Box<Group>, u64)>,
}

impl StreamWalk {
    /// Has `group`, which is called `name` and is about to change, keep how it is, unless it does
    /// or the walk does not need it.
    #[cold]
    pub fn before_change(&mut self, name: &[u8], group: &mut Group) {
        let is_needed = self.needs(name) && !self.added.contains(name);
        if is_needed && !self.keeper.is_given_up() {
            self.begin(name, group);
        }
    }

    fn begin(&mut self, name: &[u8], group: &mut Group) {
        if !group.is_walked() {
            self.keeper.note_kept(Growth::Copied(heap_bytes(name.len()) + NAME_BYTES));
            self.begun.push(name.into());
            group.begin_walk(&self.keeper);
        }
    }

    /// Notes that a group called `name` was added.
    #[cold]
    pub fn note_added(&mut self, name: &[u8]) {
        let is_needed = self.needs(name) && !self.keeper.is_given_up();
        if is_needed && self.added.insert(name.into()) {
            self.keeper.note_kept(Growth::Copied(heap_bytes(name.len()) + NAME_BYTES));
        }
    }

    /// Keeps `group`, which was removed, called `name` and takes `bytes`, where the walk needs it.
    #[cold]
    pub fn keep_removed(&mut self, name: &[u8], mut group: Box<Group>, bytes: u64) {
        let is_needed = self.needs(name) && !self.added.contains(name);
        if is_needed && !self.keeper.is_given_up() {
            self.begin(name, &mut group);
            self.keeper.note_kept(Growth::Left(bytes));
            self.removed.insert(name.into(), (group, bytes));
        }
    }

    fn needs(&self, name: &[u8]) -> bool {
        *name >= *self.next
    }

    /// Appends the next few parts of `groups` to `out`; returns whether there is none left.
    fn step(&mut self, groups: &mut Groups, out: &mut Vec<u8>) -> bool {
        let Some((name, was_removed)) = self.next_group(groups) else { return true };
        let is_through = if was_removed {
            let (group, _) = self.removed.get_mut(&name).expect("it was found");
            group.step(&name, out)
        } else if self.added.contains(&name) {
            true
        } else {
            let group = groups.get_mut(&name).expect("it was found");
            self.begin(&name, group);
            group.step(&name, out)
        };
        if is_through {
            self.release(&name, groups);
            self.next = [&*name, &[0]].concat().into();
        }
        false
    }

    /// Returns the name of the group that comes next, and whether it was removed: one that is there
    /// and has the name of such a one was added since.
    fn next_group(&self, groups: &Groups) -> Option<(Box<[u8]>, bool)> {
        let bounds = (Bound::Included(&*self.next), Bound::Unbounded);
        let removed = self.removed.range::<[u8], _>(bounds).next().map(|(name, _)| name);
        let current = groups.range::<[u8], _>(bounds).next().map(|(name, _)| name);
        match (removed, current) {
            (Some(removed), Some(current)) if current < removed => Some((current.clone(), false)),
            (Some(removed), _) => Some((removed.clone(), true)),
            (None, current) => current.map(|name| (name.clone(), false)),
        }
    }

    /// Lets go of what was kept of the group called `name`.
    fn release(&mut self, name: &[u8], groups: &mut Groups) {
        if let Some((group, left)) = self.removed.remove(name) {
            let copied = group.kept_bytes();
            self.keeper.release(KeptBytes { copied, left }, group);
        } else if let Some(group) = groups.get_mut(name) {
            let copied = group.kept_bytes();
            if let Some(walk) = group.end_walk() {
                self.keeper.release(KeptBytes { copied, left: 0 }, walk);
            }
        }
    }
}

impl Walked for Stream {
    fn begin(&mut self, keeper: Arc<Keeper>) -> u64 {
        // Groups that keep how they were for another walk would give that.
        drop(self.end());
        let Parts { log, groups, walk, .. } = &mut *self.0;
        let (counters, group_count) = (log.counters(), groups.len() as u64);
        let mut part = Vec::new();
        StreamPart::Counters { length: log.len(), counters, group_count }.put(&mut part);
        let own = heap_bytes(size_of::<StreamWalk>()) + heap_bytes(part.capacity());
        walk.0 = Some(Box::new(StreamWalk {
            keeper: Arc::clone(&keeper),
            counters: part,
            next: Box::default(),
            begun: Vec::new(),
            added: BTreeSet::new(),
            removed: BTreeMap::new(),
        }));
        own + log.begin(keeper)
    }

    fn keeper(&self) -> Option<&Arc<Keeper>> {
        self.0.walk.0.as_ref().map(|walk| &walk.keeper)
    }

    fn step(&mut self, is_due: &mut dyn FnMut() -> bool, out: &mut Vec<u8>) -> bool {
        let Parts { log, groups, walk: place, .. } = &mut *self.0;
        let Some(walk) = &mut place.0 else { return true };
        if !log.step(is_due, out) {
            return false;
        }
        out.append(&mut walk.counters);
        while !walk.step(groups, out) {
            if is_due() {
                return false;
            }
        }
        // There may be many names of groups.
        if let Some(walk) = place.0.take() {
            let keeper = Arc::clone(&walk.keeper);
            keeper.release(KeptBytes::default(), walk);
        }
        true
    }

    fn end(&mut self) -> Option<Freed> {
        let Parts { log, groups, walk, .. } = &mut *self.0;
        _ = log.end();
        let walk = walk.0.take()?;
        let begun = walk.begun.iter().filter_map(|name| groups.get_mut(name)?.end_walk());
        let begun: Vec<_> = begun.collect();
        Some(Box::new((begun, walk)))
    }
}
