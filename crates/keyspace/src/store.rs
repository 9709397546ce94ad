//! The collections of one database within one shard: private memory that entries refer to.

use std::collections::BTreeSet;
use std::ops::Deref;

use base::UnixMs;
use collections::{Chunked, Collection};

use crate::object::stays_small;

/// No slot.
const NONE: u32 = u32::MAX;
/// The bytes of collections are charged in steps of this, so that not every change pays for it.
const CHARGE_STEP_BYTES: u64 = 4096;

/// What an entry keeps in place of a value: the index of a slot, and how many collections the slot
/// had before, so that a stale handle is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle {
    index: u32,
    generation: u32,
}

/// The value of an entry that has a handle.
pub(crate) struct HandleValue {
    bytes: [u8; Handle::COUNTED_BYTES as usize],
    length: usize,
}

impl Deref for HandleValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Collections, each in a slot of its own until it is taken out.
#[derive(Default)]
pub(crate) struct Store {
    slots: Chunked<Slot>,
    /// What the slots take: every change asks for it, and few change it.
    slot_bytes: u64,
    /// The first of the free slots; each has the index of the next.
    free: Option<u32>,
    /// The bytes that the collections take in addition to their slots.
    bytes: u64,
    /// Those of them that are charged: at least as many, by less than three steps.
    charged_bytes: u64,
    /// The hashes with fields that expire, by when the first field of each does; each counts its
    /// share of the tree among its own bytes.
    timed: BTreeSet<(UnixMs, Handle)>,
}

struct Slot {
    generation: u32,
    content: Content,
}

/// The bytes of the slot of a collection.
pub(crate) const SLOT_BYTES: u64 = size_of::<Slot>() as u64;

enum Content {
    Free { next: u32 },
    Used(Collection),
}

impl Handle {
    /// The bytes of the value of an entry with a handle alone.
    pub const BYTES: u64 = 8;
    /// The bytes of one with the number of parts behind it.
    pub const COUNTED_BYTES: u64 = 16;

    /// Returns the value of the entry of `key`, whose collection has `count` parts: the handle, and
    /// the count for readers in other processes. A long key, which may not stay in a slab page with
    /// both, has the handle alone.
    #[inline]
    pub fn to_value(self, key: &[u8], count: usize) -> HandleValue {
        let word = u64::from(self.generation) << 32 | u64::from(self.index);
        let bytes = (u128::from(count as u64) << 64 | u128::from(word)).to_le_bytes();
        let is_counted = stays_small(key, bytes.len());
        let length = if is_counted { Handle::COUNTED_BYTES } else { Handle::BYTES } as usize;
        HandleValue { bytes, length }
    }

    /// Returns the handle of an entry's value.
    #[inline]
    pub fn of(value: &[u8]) -> Handle {
        let word = value.first_chunk().expect("a handle is a word");
        let word = u64::from_le_bytes(*word);
        Handle { index: word as u32, generation: (word >> 32) as u32 }
    }
}

impl Store {
    /// Keeps `collection` until [`Store::take`].
    pub fn insert(&mut self, collection: Collection) -> Handle {
        self.add_bytes(0, collection.memory_bytes());
        let index = self.free.unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, content: Content::Free { next: NONE } });
            self.slot_bytes = self.slots.memory_bytes();
            u32::try_from(self.slots.len() - 1).expect("entries are fewer")
        });
        let slot = self.slots.get_mut(index as usize);
        let Content::Free { next } = slot.content else { panic!("slot {index} is in use") };
        self.free = (next != NONE).then_some(next);
        let expiry = collection.next_expiry();
        slot.content = Content::Used(collection);
        let handle = Handle { index, generation: slot.generation };
        self.note_expiry(handle, None, expiry);
        handle
    }

    /// Returns the collection of `handle`.
    #[inline]
    pub fn get(&self, handle: Handle) -> &Collection {
        let slot = self.slots.get(handle.index as usize);
        assert_eq!(slot.generation, handle.generation, "a handle outlives nothing");
        match &slot.content {
            Content::Used(collection) => collection,
            Content::Free { .. } => panic!("slot {} is free", handle.index),
        }
    }

    /// Returns the collection of `handle`, to go through it: nothing but its walk may change.
    pub fn walkable(&mut self, handle: Handle) -> &mut Collection {
        let slot = self.slots.get_mut(handle.index as usize);
        assert_eq!(slot.generation, handle.generation, "a handle outlives nothing");
        match &mut slot.content {
            Content::Used(collection) => collection,
            Content::Free { .. } => panic!("slot {} is free", handle.index),
        }
    }

    /// Changes the collection of `handle`; returns its bytes before and after too.
    #[inline]
    pub fn change<R>(
        &mut self,
        handle: Handle,
        change: impl FnOnce(&mut Collection) -> R,
    ) -> (R, u64, u64) {
        let slot = self.slots.get_mut(handle.index as usize);
        assert_eq!(slot.generation, handle.generation, "a handle outlives nothing");
        let Content::Used(collection) = &mut slot.content else {
            panic!("slot {} is free", handle.index)
        };
        let (before, expiry_before) = (collection.memory_bytes(), collection.next_expiry());
        let result = change(collection);
        let (after, expiry) = (collection.memory_bytes(), collection.next_expiry());
        self.add_bytes(before, after);
        self.note_expiry(handle, expiry_before, expiry);
        (result, before, after)
    }

    /// Takes the collection of `handle` out, which means nothing from here on.
    pub fn take(&mut self, handle: Handle) -> Collection {
        let next = self.free.unwrap_or(NONE);
        let slot = self.slots.get_mut(handle.index as usize);
        assert_eq!(slot.generation, handle.generation, "a handle outlives nothing");
        slot.generation = slot.generation.wrapping_add(1);
        let Content::Used(collection) =
            std::mem::replace(&mut slot.content, Content::Free { next })
        else {
            panic!("slot {} is free", handle.index)
        };
        self.free = Some(handle.index);
        self.add_bytes(collection.memory_bytes(), 0);
        self.note_expiry(handle, collection.next_expiry(), None);
        collection
    }

    /// Returns the hash whose first field expires before all others, where it has by `now`.
    pub fn first_expired(&self, now: UnixMs) -> Option<Handle> {
        self.timed.first().filter(|(at, _)| now > *at).map(|(_, handle)| *handle)
    }

    /// Returns how many hashes have fields that expire.
    #[inline]
    pub fn timed_len(&self) -> usize {
        self.timed.len()
    }

    /// Notes when the first field of the collection of `handle` expires, which was `before`.
    #[inline]
    fn note_expiry(&mut self, handle: Handle, before: Option<UnixMs>, after: Option<UnixMs>) {
        if before != after {
            self.change_expiry(handle, before, after);
        }
    }

    #[cold]
    fn change_expiry(&mut self, handle: Handle, before: Option<UnixMs>, after: Option<UnixMs>) {
        if let Some(before) = before {
            let was_there = self.timed.remove(&(before, handle));
            assert!(was_there, "each hash with times is noted under the first of them");
        }
        self.timed.extend(after.map(|after| (after, handle)));
    }

    /// Returns the bytes that the collections take beside their slots.
    #[cfg(test)]
    pub fn collection_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes that count as private memory.
    #[inline]
    pub fn private_bytes(&self) -> u64 {
        self.slot_bytes + self.charged_bytes
    }

    /// Returns by how much the collections may grow before more has to be charged.
    #[inline]
    pub fn spare_bytes(&self) -> u64 {
        self.charged_bytes - self.bytes
    }

    #[inline]
    fn add_bytes(&mut self, before: u64, after: u64) {
        self.bytes = self.bytes + after - before;
        let is_within = self.bytes <= self.charged_bytes
            && self.charged_bytes - self.bytes < 3 * CHARGE_STEP_BYTES;
        if !is_within || self.bytes == 0 {
            self.charged_bytes = self.bytes.next_multiple_of(CHARGE_STEP_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use collections::{End, List, ListLimit};

    use super::*;

    fn list(text: &str) -> Collection {
        let mut list = List::default();
        list.push(End::Tail, text.as_bytes(), ListLimit(-2));
        Collection::List(list)
    }

    fn text(collection: &Collection) -> Vec<u8> {
        let Collection::List(list) = collection else { panic!("a list was stored") };
        list.view().get(0).expect("it has an element").to_vec()
    }

    #[test]
    fn slots_are_used_again_under_other_handles() {
        let mut store = Store::default();
        let handles: Vec<Handle> =
            (0..1000).map(|number| store.insert(list(&number.to_string()))).collect();
        for (number, handle) in handles.iter().enumerate() {
            assert_eq!(Handle::of(&handle.to_value(b"k", 1)), *handle);
            assert_eq!(text(store.get(*handle)), number.to_string().into_bytes());
        }
        assert_eq!(text(&store.take(handles[7])), b"7");
        let again = store.insert(list("again"));
        assert!(again.index == handles[7].index && again != handles[7]);
        assert!(store.private_bytes() >= store.collection_bytes());
        for handle in handles.iter().filter(|handle| **handle != handles[7]).chain([&again]) {
            store.take(*handle);
        }
        assert_eq!((store.collection_bytes(), store.spare_bytes()), (0, 0));
    }

    #[test]
    #[should_panic(expected = "a handle outlives nothing")]
    fn a_handle_of_what_was_taken_is_refused() {
        let mut store = Store::default();
        let handle = store.insert(list("a"));
        store.take(handle);
        store.insert(list("b"));
        store.get(handle);
    }

    #[test]
    fn charged_bytes_follow_in_steps() {
        let mut store = Store::default();
        let handle = store.insert(list("a"));
        for _ in 0..1000 {
            store.change(handle, |collection| {
                let Collection::List(list) = collection else { panic!("a list was stored") };
                list.prepare(std::iter::once(&[b'x'; 100][..]), ListLimit(-2));
                list.push(End::Head, &[b'x'; 100], ListLimit(-2));
            });
            assert!(store.spare_bytes() < 3 * CHARGE_STEP_BYTES);
            assert_eq!(store.collection_bytes(), store.get(handle).memory_bytes());
        }
        store.take(handle);
        assert_eq!(store.spare_bytes(), 0);
    }
}
