//! Entries of 4 KiB and more: a descriptor that never moves, and a block in the extent region.

use std::sync::atomic::{AtomicU64, Ordering};

use base::UnixMs;

use crate::extent::{BlockOwner, SlideStep};
use crate::layout::{BLOCK_HEADER_BYTES, Encoding, Header, Location, block, block_value_offset};
use crate::mapped_range::NeedRoom;
use crate::pins::PinState;
use crate::protocol_rules::{Rule, holds, linger};
use crate::sequence;

use super::{Content, Entry, EntryId, Table};

/// The most room that APPEND leaves behind a value, as Redis does: 1 MiB. A value of as much that
/// finds no place has asked for it; where it lies it grows without, too.
pub const APPEND_SPARE_BYTES_MAX: u64 = 1 << 20;
/// Descriptors come in chunks of 4 KiB: 256 of them.
const DESCRIPTOR_CHUNK_LOG2: u32 = 12;
/// Header word and location word.
const DESCRIPTOR_BYTES: u64 = 16;

/// What became of a [`Table::slide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slid {
    /// The block has moved.
    Moved,
    /// A reader holds the block; nothing has changed.
    Pinned,
    /// The block is no longer there or no longer beside a hole; nothing has changed.
    Gone,
}

impl Table {
    /// Stores `content` in a new block behind a new descriptor; returns the descriptor.
    pub(super) fn store_large(
        &mut self,
        content: &Content<'_>,
        position: u64,
    ) -> Result<u64, NeedRoom> {
        let descriptor = self.take_descriptor()?;
        let block = match self.store_block(descriptor, content, position) {
            Ok(block) => block,
            Err(need) => {
                self.free_descriptors.push(descriptor);
                return Err(need);
            }
        };
        let header = content.header.with_ttl(content.expiry.is_some()).as_large();
        // The version goes on from what the word held: a stale reader never meets it twice.
        let before = Location(self.memory.word(descriptor + 8).load(Ordering::Relaxed));
        self.memory.word(descriptor).store(header.0, Ordering::Relaxed);
        self.memory.word(descriptor + 8).store(before.next_at(block).0, Ordering::Relaxed);
        self.large_count += 1;
        Ok(descriptor)
    }

    /// Gives the large entry at `id` a new block with `content`; the old one is freed, or retired
    /// while a reader holds it.
    pub(super) fn replace_block(
        &mut self,
        id: EntryId,
        content: &Content<'_>,
        position: u64,
    ) -> Result<(), NeedRoom> {
        let before = Location(self.memory.word(id.reference + 8).load(Ordering::Relaxed));
        if !holds(Rule::UnlinkedBeforeFreed) {
            self.release_block(before.offset());
            linger(Rule::UnlinkedBeforeFreed);
        }
        let block = self.store_block(id.reference, content, position)?;
        let header = content.header.with_ttl(content.expiry.is_some()).as_large();
        let word = self.memory.word(id.reference + 8);
        let home = self.bucket(id.home);
        home.begin(Rule::OddWhileRelinking);
        self.memory.word(id.reference).store(header.0, Ordering::Relaxed);
        word.store(before.next_at(block).0, Ordering::Relaxed);
        home.end(Rule::OddWhileRelinking);
        if holds(Rule::UnlinkedBeforeFreed) {
            self.release_block(before.offset());
        }
        Ok(())
    }

    /// Frees a large entry that no slot refers to; returns whether its block is free now, or is to
    /// be: [`Arena::reclaim_deferred`](crate::Arena::reclaim_deferred).
    pub(super) fn free_large(&mut self, descriptor: u64) -> bool {
        let word = self.memory.word(descriptor + 8);
        let location = Location(word.load(Ordering::Relaxed));
        word.store(location.next_at(0).0, Ordering::Relaxed);
        let is_free = self.release_block(location.offset());
        self.free_descriptors.push(descriptor);
        self.large_count -= 1;
        is_free
    }

    /// Changes part of a large value where it lies: not while pinned, and beyond its room only
    /// where the memory behind it is free.
    pub(super) fn overwrite_large_in_place(
        &mut self,
        id: EntryId,
        offset: u64,
        bytes: &[u8],
        encoding: Encoding,
    ) -> bool {
        let word = self.memory.word(id.reference + 8);
        let location = Location(word.load(Ordering::Relaxed));
        let start = location.offset();
        let load = |at: u64| self.memory.word(start + at).load(Ordering::Relaxed);
        let (key_length, old) = (load(block::KEY_LENGTH), load(block::VALUE_LENGTH));
        let end = offset + bytes.len() as u64;
        let is_beyond = end > load(block::VALUE_CAPACITY);
        if is_beyond && load(block::VALUE_AT) != 0 {
            return false;
        }
        let home = self.bucket(id.home);
        home.begin(Rule::OddWhileOverwriting);
        mark(word);
        let pinned = self.arena.pins().is_pinned(start) && holds(Rule::PinnedUnchanged);
        let grown = if pinned {
            None
        } else if is_beyond {
            self.grow_block(start, key_length, end)
        } else {
            Some(0)
        };
        if grown.is_some() {
            let value = start + block_value_offset(key_length);
            if offset > old {
                self.write_zeroes(value + old, offset - old);
            }
            self.write_bytes(value + offset, bytes);
            let length = self.memory.word(start + block::VALUE_LENGTH);
            length.store(old.max(end), Ordering::Relaxed);
            let header = self.memory.word(id.reference);
            let changed = Header(header.load(Ordering::Relaxed)).with_encoding(encoding);
            header.store(changed.0, Ordering::Relaxed);
        }
        unmark(word, location.next_at(start));
        home.end(Rule::OddWhileOverwriting);
        self.large_bytes += grown.unwrap_or(0);
        grown.is_some()
    }

    /// Makes the block at `start` large enough for a value of `length`, with memory to spare where
    /// there is as much; returns by how many bytes it grew, `None` where it could not. The caller
    /// keeps readers away.
    fn grow_block(&self, start: u64, key_length: u64, length: u64) -> Option<u64> {
        let value_at = block_value_offset(key_length);
        let mut extents = self.arena.extents();
        let before = extents.block_bytes(start);
        let spare = length.min(APPEND_SPARE_BYTES_MAX);
        let mut extend = |room: u64| {
            let bytes = (value_at + room).next_multiple_of(64);
            extents.extend(start, bytes, self.policy)
        };
        if !extend(length + spare) && !extend(length) {
            return None;
        }
        let got = extents.block_bytes(start);
        // What is behind may have been another's block a moment ago.
        sequence::before_reuse::<AtomicU64>();
        self.memory.word(start + block::VALUE_CAPACITY).store(got - value_at, Ordering::Relaxed);
        Some(got - before)
    }

    /// Sets or removes the time to live of a large entry: its words have their place already.
    pub(super) fn set_large_expiry(&mut self, id: EntryId, expiry: Option<UnixMs>) {
        let descriptor = self.memory.word(id.reference);
        let header = Header(descriptor.load(Ordering::Relaxed));
        let position = self.volatile_position_for(id.reference, header, expiry);
        let start = Location(self.memory.word(id.reference + 8).load(Ordering::Relaxed)).offset();
        let home = self.bucket(id.home);
        home.begin(Rule::OddWhileOverwriting);
        if let Some(at) = expiry {
            self.memory.word(start + block::EXPIRY).store(at.0 as u64, Ordering::Relaxed);
            self.memory.word(start + block::VOLATILE).store(position, Ordering::Relaxed);
        }
        descriptor.store(header.with_ttl(expiry.is_some()).0, Ordering::Relaxed);
        home.end(Rule::OddWhileOverwriting);
        self.settle_volatile(header, expiry, position, id.reference);
    }

    /// Returns whether a reader holds the entry at `id`, so that its removal would free nothing,
    /// where that is quickly seen. A moment later another reader may hold it.
    pub fn is_pinned(&self, id: EntryId) -> bool {
        if !self.entry(id).header().is_large() {
            return false;
        }
        let location = Location(self.memory.word(id.reference + 8).load(Ordering::Relaxed));
        self.arena.pins().state_of(location.offset()) == PinState::Pinned
    }

    /// Returns the offset and the size of the block of the entry at `id`, where it has one that
    /// grows with its value.
    pub fn block_of(&self, id: EntryId) -> Option<(u64, u64)> {
        let entry = self.entry(id);
        if !entry.header().is_large() || entry.is_adopted() {
            return None;
        }
        let offset = Location(self.memory.word(id.reference + 8).load(Ordering::Relaxed)).offset();
        Some((offset, self.arena.extents().block_bytes(offset)))
    }

    /// Returns the entry behind `descriptor`, if it is this table's and its block is at `offset`.
    pub fn large_entry(&self, descriptor: u64, offset: u64) -> Option<Entry<'_>> {
        if !self.descriptor_chunks.iter().any(|&chunk| in_chunk(chunk, descriptor)) {
            return None;
        }
        let location = Location(self.memory.word(descriptor + 8).load(Ordering::Relaxed));
        (location.offset() == offset).then(|| self.entry_at(descriptor))
    }

    /// Moves the block of `step` into the hole beside it, if this table still owns it and no reader
    /// holds it. The caller holds this shard and no other lock.
    pub fn slide(&mut self, step: &SlideStep) -> Slid {
        let BlockOwner { descriptor, shard, database } = step.owner;
        if (database, shard) != (self.identity, self.shard.0) {
            return Slid::Gone;
        }
        if !self.descriptor_chunks.iter().any(|&chunk| in_chunk(chunk, descriptor)) {
            return Slid::Gone;
        }
        let word = self.memory.word(descriptor + 8);
        let location = Location(word.load(Ordering::Relaxed));
        if location.offset() != step.offset {
            return Slid::Gone;
        }
        mark(word);
        if self.arena.pins().is_pinned(step.offset) && holds(Rule::PinnedStays) {
            unmark(word, location.next_at(step.offset));
            return Slid::Pinned;
        }
        let moved = self.arena.extents().slide(step);
        unmark(word, location.next_at(moved.unwrap_or(step.offset)));
        if moved.is_some() { Slid::Moved } else { Slid::Gone }
    }

    /// Frees every block and gives the descriptors back.
    pub(super) fn clear_large(&mut self) {
        for chunk in std::mem::take(&mut self.descriptor_chunks) {
            for index in 0..(1 << DESCRIPTOR_CHUNK_LOG2) / DESCRIPTOR_BYTES {
                let at = chunk + index * DESCRIPTOR_BYTES + 8;
                let location = Location(self.memory.word(at).load(Ordering::Relaxed));
                if location.offset() != 0 {
                    self.memory.word(at).store(location.next_at(0).0, Ordering::Relaxed);
                    self.release_block(location.offset());
                }
            }
            self.arena.index().free(chunk, DESCRIPTOR_CHUNK_LOG2);
            self.index_bytes -= 1 << DESCRIPTOR_CHUNK_LOG2;
        }
        self.free_descriptors.clear();
        self.large_count = 0;
        debug_assert_eq!(self.large_bytes, 0, "every block was counted and freed");
    }

    fn store_block(
        &mut self,
        descriptor: u64,
        content: &Content<'_>,
        position: u64,
    ) -> Result<u64, NeedRoom> {
        let (key_length, length) = (content.key.len() as u64, content.value_length());
        let value_at = block_value_offset(key_length);
        let elsewhere = content.stays_at();
        let room = if elsewhere == 0 { length + content.spare } else { 0 };
        let bytes = (value_at + room).next_multiple_of(64);
        let owner = BlockOwner { descriptor, shard: self.shard.0, database: self.identity };
        let start = match content.reserved_block() {
            Some(reserved) => {
                self.arena.extents().link(reserved, owner);
                reserved
            }
            None => self.arena.extents().allocate(bytes, owner, self.policy)?,
        };
        let got = self.arena.extents().block_bytes(start);
        sequence::before_reuse::<AtomicU64>();
        self.large_bytes += got;
        let store =
            |at: u64, value: u64| self.memory.word(start + at).store(value, Ordering::Relaxed);
        store(block::EXPIRY, content.expiry.map_or(0, |at| at.0 as u64));
        store(block::VOLATILE, position);
        store(block::KEY_LENGTH, key_length);
        store(block::VALUE_LENGTH, length);
        store(block::VALUE_CAPACITY, if elsewhere == 0 { got - value_at } else { 0 });
        store(block::VALUE_AT, elsewhere);
        self.write_bytes(start + BLOCK_HEADER_BYTES, content.key);
        if elsewhere == 0 {
            self.write_parts(start + value_at, content);
        }
        Ok(start)
    }

    fn release_block(&mut self, offset: u64) -> bool {
        self.large_bytes -= self.arena.extents().block_bytes(offset);
        self.arena.release_block(offset)
    }

    pub(super) fn take_descriptor(&mut self) -> Result<u64, NeedRoom> {
        if self.free_descriptors.is_empty() {
            let chunk = self.arena.index().allocate(DESCRIPTOR_CHUNK_LOG2, self.policy)?;
            self.index_bytes += 1 << DESCRIPTOR_CHUNK_LOG2;
            self.descriptor_chunks.push(chunk);
            let count = (1 << DESCRIPTOR_CHUNK_LOG2) / DESCRIPTOR_BYTES;
            self.free_descriptors
                .extend((0..count).rev().map(|index| chunk + index * DESCRIPTOR_BYTES));
        }
        Ok(self.free_descriptors.pop().expect("just filled"))
    }
}

/// Marks the location in `cell` as changing; the pins are read afterwards.
pub(super) fn mark(cell: &AtomicU64) {
    if holds(Rule::MarkedWhileChanging) {
        sequence::begin(cell);
    }
    linger(Rule::MarkedWhileChanging);
}

/// Ends a [`mark`] with the new location.
pub(super) fn unmark(cell: &AtomicU64, location: Location) {
    linger(Rule::MarkedWhileChanging);
    if holds(Rule::MarkedWhileChanging) {
        sequence::end_with(cell, location.0);
    } else {
        cell.store(location.0, Ordering::Release);
    }
}

fn in_chunk(chunk: u64, offset: u64) -> bool {
    (chunk..chunk + (1 << DESCRIPTOR_CHUNK_LOG2)).contains(&offset)
}
