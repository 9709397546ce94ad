//! A stream: entries in the order of their identities, and groups of consumers that read them.
//!
//! `stream/id.rs` is the identity of an entry, `stream/log.rs` the entries, `stream/node.rs` one
//! listpack of them, `stream/group.rs` a group, `stream/id_map.rs` the order of nodes and of
//! entries that are pending, `stream/removal.rs` how entries go to which groups may refer,
//! `stream/producers.rs` what those who add entries sent before, and `stream/walk.rs` a walk
//! through all but that, whose parts are in `stream/parts.rs`.

mod group;
mod id;
mod id_map;
mod log;
mod node;
mod parts;
mod producers;
mod removal;
mod walk;

use std::collections::BTreeMap;

pub use group::{Consumer, ConsumerIndex, Group, Pending};
pub use id::{IdText, StreamId};
pub use log::{Entries, Log, LogCounters, TooLarge, Trim, TrimBounds};
pub use parts::StreamPart;
pub use producers::Producers;
pub use removal::{References, Removal};

use crate::heap_bytes;
use crate::walk::WalkPlace;
use walk::StreamWalk;

/// The most that entries and deliveries are counted to: what a signed number can say.
const COUNT_MAX: u64 = i64::MAX as u64;
/// A bound of what the producers take without their messages.
const PRODUCERS_BYTES: u64 = heap_bytes(size_of::<Producers>());

/// Entries in order, and groups of consumers.
#[derive(Clone, Default)]
pub struct Stream(Box<Parts>);

/// The groups by their names.
type Groups = BTreeMap<Box<[u8]>, Box<Group>>;

#[derive(Default)]
struct Parts {
    log: Log,
    groups: Groups,
    /// What the groups take.
    group_bytes: u64,
    /// None as long as no producer names its messages.
    producers: Option<Box<Producers>>,
    walk: WalkPlace<StreamWalk>,
}

impl Clone for Parts {
    fn clone(&self) -> Parts {
        let groups = self.groups.clone();
        let group_bytes = groups.iter().map(|(name, group)| bytes_of(name, group)).sum();
        let producers = self.producers.clone();
        let walk = WalkPlace::default();
        Parts { log: self.log.clone(), groups, group_bytes, producers, walk }
    }
}

impl Stream {
    /// Returns the entries.
    #[inline]
    pub fn log(&self) -> &Log {
        &self.0.log
    }

    /// As [`Stream::log`], to change them.
    #[inline]
    pub fn log_mut(&mut self) -> &mut Log {
        &mut self.0.log
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        usize::try_from(self.0.log.len()).expect("entries take memory")
    }

    /// Returns whether there are none; a stream without entries is there all the same.
    pub fn is_empty(&self) -> bool {
        self.0.log.is_empty()
    }

    /// Returns the bytes of memory that it takes beside itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let own = heap_bytes(size_of::<Parts>()) + self.0.log.memory_bytes() + self.0.group_bytes;
        own + self.0.producers.as_deref().map_or(0, |it| PRODUCERS_BYTES + it.memory_bytes())
    }

    /// Returns the producers who name their messages, if there ever was one.
    #[inline]
    pub fn producers(&self) -> Option<&Producers> {
        self.0.producers.as_deref()
    }

    /// As [`Stream::producers`], to change them, which makes them if there were none.
    pub fn producers_mut(&mut self) -> &mut Producers {
        self.0.producers.get_or_insert_default()
    }

    /// Returns a bound of what [`Stream::producers_mut`] takes.
    pub const fn producers_growth_bound() -> u64 {
        PRODUCERS_BYTES
    }

    /// Returns a bound of what a further group takes.
    pub fn group_growth_bound(name: &[u8]) -> u64 {
        bytes_of(name, &Group::default())
    }

    /// Returns the number of groups.
    pub fn group_count(&self) -> usize {
        self.0.groups.len()
    }

    /// Returns the groups in the order of their names.
    pub fn groups(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        self.0.groups.iter().map(|(name, group)| (&**name, &**group))
    }

    /// Returns the group that is called `name`, if there is one.
    #[inline]
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.0.groups.get(name).map(|group| &**group)
    }

    /// Adds `group`; returns whether no group was called `name` before, else nothing changes.
    pub fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        if self.0.groups.contains_key(name) {
            return false;
        }
        self.0.group_bytes += bytes_of(name, &group);
        self.0.groups.insert(name.into(), Box::new(group));
        if let Some(walk) = &mut self.0.walk.0 {
            walk.note_added(name);
        }
        true
    }

    /// Removes a group; returns whether it was there.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let Some(group) = self.0.groups.remove(name) else { return false };
        let bytes = bytes_of(name, &group);
        self.0.group_bytes -= bytes;
        if let Some(walk) = &mut self.0.walk.0 {
            walk.keep_removed(name, group, bytes);
        }
        true
    }

    /// Runs `change` on a group, if it is there.
    #[inline]
    pub fn change_group<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&Log, &mut Group) -> R,
    ) -> Option<R> {
        let Parts { log, groups, group_bytes, walk, .. } = &mut *self.0;
        let group = groups.get_mut(name)?;
        if let Some(walk) = &mut walk.0 {
            walk.before_change(name, group);
        }
        let before = group.memory_bytes();
        let result = change(log, group);
        *group_bytes = *group_bytes - before + group.memory_bytes();
        Some(result)
    }
}

/// Returns what `group` takes with its name.
fn bytes_of(name: &[u8], group: &Group) -> u64 {
    group::NAME_TREE_BYTES
        + heap_bytes(name.len())
        + heap_bytes(size_of::<Group>())
        + group.memory_bytes()
}

#[cfg(test)]
mod tests;
