//! Gives a large value another key, another table or both, without moving its bytes.
//!
//! The value leaves the one entry and joins the other while its block belongs to neither: no reader
//! in another process finds it then. What the other entry needs is reserved before, so that a value
//! which has left always arrives. A block that a reader pins may not change its key, and one whose
//! new key takes another number of lines has no space for it: such values are copied.

use std::sync::atomic::{AtomicU64, Ordering};

use base::UnixMs;

use crate::extent::BlockOwner;
use crate::layout::{BLOCK_HEADER_BYTES, Header, Location, block, block_value_offset, tag_of};
use crate::mapped_range::NeedRoom;
use crate::protocol_rules::{Rule, holds};
use crate::sequence;

use super::large::{mark, unmark};
use super::{EntryId, Table};

/// A large value that no entry refers to.
#[derive(Debug)]
#[must_use = "its memory belongs to nobody until a table adopts it"]
pub struct Detached {
    block: u64,
    /// Type, encoding and mark.
    header: Header,
    expiry: Option<UnixMs>,
    value_offset: u64,
}

impl Table {
    /// Makes sure that the next [`Table::adopt`] finds room in the index.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    pub fn prepare_adoption(&mut self) -> Result<(), NeedRoom> {
        self.grow_for_one()?;
        if self.free_overflow.is_empty() {
            self.add_overflow_chunk()?;
        }
        let descriptor = self.take_descriptor()?;
        self.free_descriptors.push(descriptor);
        Ok(())
    }

    /// Takes the large value at `id` out of the table, for an entry under `key`; the entry is gone.
    /// `None` where the value is small, a reader holds it, or `key` has no room before it; nothing
    /// has changed then. The caller calls [`Table::settle`] once the value is adopted.
    pub fn detach(&mut self, id: EntryId, key: &[u8]) -> Option<Detached> {
        let entry = self.entry(id);
        let (header, expiry) = (entry.header(), entry.expiry());
        let start = entry.large_block()?;
        let value_offset = block_value_offset(key.len() as u64);
        if block_value_offset(entry.key().len() as u64) != value_offset {
            return None;
        }
        let word = self.memory.word(id.reference + 8);
        let location = Location(word.load(Ordering::Relaxed));
        mark(word);
        if self.arena.pins().is_pinned(start) && holds(Rule::PinnedUnchanged) {
            unmark(word, location.next_at(start));
            return None;
        }
        if header.has_ttl() {
            self.forget_volatile(id.reference);
        }
        self.unlink_slot(id);
        unmark(self.memory.word(id.reference + 8), location.next_at(0));
        self.entry_count -= 1;
        self.large_bytes -= self.arena.extents().block_bytes(start);
        self.large_count -= 1;
        self.free_descriptors.push(id.reference);
        Some(Detached { block: start, header, expiry, value_offset })
    }

    /// Takes `detached` in as the value of `key`, which is absent. The entry has the time to live
    /// that it had.
    ///
    /// # Panics
    /// When [`Table::prepare_adoption`] was not called, or `key` is not like the one that the value
    /// was detached for.
    pub fn adopt(&mut self, hash: u64, key: &[u8], detached: Detached) -> EntryId {
        debug_assert!(self.find(hash, key).is_none(), "the key is absent");
        let Detached { block: start, header, expiry, value_offset } = detached;
        assert_eq!(block_value_offset(key.len() as u64), value_offset, "the key has its room");
        let home = self.home(hash);
        let (bucket, slot) = self.free_slot(home, tag_of(hash)).expect("a bucket was made ready");
        let descriptor = self.take_descriptor().expect("a descriptor was made ready");
        let owner = BlockOwner { descriptor, shard: self.shard.0, database: self.identity };
        self.arena.extents().set_owner(start, owner);
        sequence::before_reuse::<AtomicU64>();
        let store =
            |at: u64, value: u64| self.memory.word(start + at).store(value, Ordering::Relaxed);
        store(block::VOLATILE, self.volatile.len() as u64);
        store(block::KEY_LENGTH, key.len() as u64);
        self.write_bytes(start + BLOCK_HEADER_BYTES, key);
        let before = Location(self.memory.word(descriptor + 8).load(Ordering::Relaxed));
        self.memory.word(descriptor).store(header.0, Ordering::Relaxed);
        self.memory.word(descriptor + 8).store(before.next_at(start).0, Ordering::Relaxed);
        if expiry.is_some() {
            self.volatile.push(descriptor);
        }
        let id = EntryId { home, bucket, slot, reference: descriptor };
        self.link_slot(id, tag_of(hash));
        self.entry_count += 1;
        self.large_count += 1;
        self.large_bytes += self.arena.extents().block_bytes(start);
        id
    }

    /// Removes the entry at `id` as [`Table::remove`] does, but keeps the index as large as it is:
    /// what was made ready for an adoption stays so. Moves no entry.
    pub fn remove_for_adoption(&mut self, id: EntryId) -> bool {
        let header = self.entry(id).header();
        if header.has_ttl() {
            self.forget_volatile(id.reference);
        }
        self.unlink_slot(id);
        self.entry_count -= 1;
        self.free_content(id.reference, header)
    }

    /// Lets the index shrink where a value has left.
    pub fn settle(&mut self) {
        self.shrink_for_one();
    }
}
