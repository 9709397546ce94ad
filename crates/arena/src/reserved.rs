//! A block that is filled before an entry refers to it: a long value is received where it stays, or
//! copied there from upload memory while no shard is held.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::arena::Arena;
use crate::atomic_copy::store_bytes;
use crate::layout::{SMALL_ENTRY_BYTES_MAX, block, block_value_offset};
use crate::mapped_range::{LimitPolicy, NeedRoom};
use crate::sequence;
use crate::table::{HeldUpload, HeldValue};
use crate::upload_region::{Claim, Uploaded};

/// The block of a value that arrives piece by piece, before any entry refers to it. It is neither
/// moved nor evicted, counts as used, and is given back when this is dropped, unless an entry has
/// been made of it: [`crate::Source::Reserved`], [`crate::Table::own_with`].
pub struct ReservedBlock {
    arena: Arc<Arena>,
    start: u64,
    /// Where the value lies, from `start`.
    value_offset: u64,
    length: u64,
    filled: u64,
    /// Where in upload memory the value was copied from; 0 where it was not.
    copied_from: u64,
    is_linked: bool,
}

impl Arena {
    /// Returns a block for a value of `length` bytes under a key of `key_length`. The caller holds
    /// no lock of the arena.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    ///
    /// # Panics
    /// When the value may be part of a small entry, which has no block.
    pub fn reserve_block(
        self: &Arc<Arena>,
        key_length: u64,
        length: u64,
    ) -> Result<ReservedBlock, NeedRoom> {
        assert!(length >= SMALL_ENTRY_BYTES_MAX, "a value of {length} bytes may be a small entry");
        let value_offset = block_value_offset(key_length);
        let start = self.extents().reserve(value_offset + length, LimitPolicy::Limited)?;
        sequence::before_reuse::<AtomicU64>();
        // Whoever frees a block looks there whether its value lies elsewhere.
        self.memory.word(start + block::VALUE_AT).store(0, Ordering::Relaxed);
        let arena = self.clone();
        let (filled, copied_from, is_linked) = (0, 0, false);
        Ok(ReservedBlock { arena, start, value_offset, length, filled, copied_from, is_linked })
    }

    /// Returns a block as [`Arena::reserve_block`] does, with a copy of the claimed upload.
    ///
    /// # Errors
    /// As [`Arena::reserve_block`].
    pub fn copy_upload(
        self: &Arc<Arena>,
        key_length: u64,
        claim: &Claim<'_>,
    ) -> Result<ReservedBlock, NeedRoom> {
        self.copy_to_block(key_length, claim.uploaded(false))
    }

    /// Returns a block as [`Arena::reserve_block`] does, with a copy of an adopted value.
    ///
    /// # Errors
    /// As [`Arena::reserve_block`].
    pub fn copy_adopted(
        self: &Arc<Arena>,
        key_length: u64,
        held: &HeldUpload,
    ) -> Result<ReservedBlock, NeedRoom> {
        let block = self.copy_to_block(key_length, held.uploaded())?;
        self.uploads().count_owned();
        Ok(block)
    }

    fn copy_to_block(
        self: &Arc<Arena>,
        key_length: u64,
        value: Uploaded<'_>,
    ) -> Result<ReservedBlock, NeedRoom> {
        let mut block = self.reserve_block(key_length, value.length)?;
        block.copy_on(value, value.length);
        Ok(block)
    }
}

impl ReservedBlock {
    /// Returns the bytes of the value that are there.
    pub fn filled_bytes(&self) -> usize {
        self.filled as usize
    }

    /// Returns the bytes of the value that are still to come.
    pub fn missing_bytes(&self) -> usize {
        (self.length - self.filled) as usize
    }

    /// Returns whether the value is there.
    pub fn is_full(&self) -> bool {
        self.filled == self.length
    }

    /// Returns the room for what is still to come, to be written from its start on.
    pub fn room(&mut self) -> &mut [u8] {
        let length = self.missing_bytes();
        // SAFETY: the bytes are committed memory of this block, initialised as all memory of a
        // source is. Only this value knows of them, and it is borrowed: no entry refers to the
        // block, so no thread of this process finds it. A reader in another process that follows a
        // stale reference may see them change and discards what it saw.
        unsafe { std::slice::from_raw_parts_mut(self.end().as_ptr(), length) }
    }

    /// Notes that the first `count` bytes of the room have been written.
    ///
    /// # Panics
    /// When there is less room.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.missing_bytes(), "{count} bytes are more than there is room for");
        self.filled += count as u64;
    }

    /// Appends `bytes` to what is there.
    ///
    /// # Panics
    /// When there is less room.
    pub fn append(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.missing_bytes(), "the value has room for what is appended");
        // SAFETY: the room is this block's, and `bytes` is none of it: whoever passes them cannot
        // have borrowed the room as well.
        unsafe { store_bytes(self.end().as_ptr(), bytes) };
        self.filled += bytes.len() as u64;
    }

    /// Copies what is still to come of the claimed upload, up to byte `end` of it, and returns how
    /// much is there then. The block has nothing else in it.
    ///
    /// # Panics
    /// When the upload ends before.
    pub fn copy_upload(&mut self, claim: &Claim<'_>, end: u64) -> u64 {
        self.copy_on(claim.uploaded(false), end);
        self.filled
    }

    fn copy_on(&mut self, value: Uploaded<'_>, end: u64) {
        assert!(end <= value.length && value.length == self.length, "the block is as long");
        let length = end.saturating_sub(self.filled);
        let part = Uploaded { offset: value.offset + self.filled, length, ..value };
        self.arena.memory.copy_uploaded(self.start + self.value_offset + self.filled, part);
        self.filled += length;
        self.copied_from = value.offset;
    }

    /// Returns what is there of the value.
    pub fn value(&self) -> &[u8] {
        // SAFETY: the bytes up to there have been written, and nobody changes them while this value
        // is borrowed: no entry refers to the block.
        unsafe { std::slice::from_raw_parts(self.first().as_ptr(), self.filled as usize) }
    }

    /// Holds the value, which is complete, so that it stays as it is whatever becomes of the block;
    /// `None` when this process holds as many values as it can.
    ///
    /// # Panics
    /// When the value is not complete.
    pub fn hold(&self) -> Option<HeldValue> {
        assert!(self.is_full(), "a value is held once it is there");
        HeldValue::new(&self.arena, self.start, self.first(), self.length as usize, 0)
    }

    /// Returns whether `bytes` are the value of this block, complete and where it lies, and may
    /// stay there under a key of `key_length` bytes.
    pub fn is_value(&self, bytes: &[u8], key_length: usize) -> bool {
        let is_same = NonNull::from(bytes).cast::<u8>() == self.first();
        let fits = block_value_offset(key_length as u64) == self.value_offset;
        is_same && fits && self.is_full() && bytes.len() as u64 == self.length
    }

    /// Returns whether the block has a copy of the claimed upload, or of a part, and may stay where
    /// it is under a key of `key_length` bytes. Who claims it anew may have changed it since.
    pub fn is_copy_of(&self, claim: &Claim<'_>, key_length: usize) -> bool {
        let uploaded = claim.uploaded(false);
        let is_same = (self.copied_from, self.length) == (uploaded.offset, uploaded.length);
        is_same && block_value_offset(key_length as u64) == self.value_offset
    }

    /// Returns the block and the length of its value, to make the entry of `key` in `arena` refer
    /// to it.
    pub(crate) fn linkable(&self, arena: &Arc<Arena>, key: &[u8]) -> (u64, u64) {
        assert!(Arc::ptr_eq(&self.arena, arena), "the block is one of the table's arena");
        assert!(!self.is_linked, "one entry refers to a block");
        assert!(self.is_full(), "the value is there");
        let value_offset = block_value_offset(key.len() as u64);
        assert_eq!(value_offset, self.value_offset, "there is room for the key");
        (self.start, self.length)
    }

    /// Notes that an entry refers to the block: it is no longer this value's to free.
    pub(crate) fn note_linked(&mut self) {
        self.is_linked = true;
    }

    fn first(&self) -> NonNull<u8> {
        self.pointer(self.value_offset)
    }

    fn end(&self) -> NonNull<u8> {
        self.pointer(self.value_offset + self.filled)
    }

    fn pointer(&self, offset: u64) -> NonNull<u8> {
        NonNull::new(self.arena.memory.pointer(self.start + offset)).expect("memory is not null")
    }
}

impl Drop for ReservedBlock {
    fn drop(&mut self) {
        if !self.is_linked {
            self.arena.release_block(self.start);
        }
    }
}

impl fmt::Debug for ReservedBlock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReservedBlock { start, length, filled, .. } = self;
        formatter
            .debug_struct("ReservedBlock")
            .field("start", start)
            .field("length", length)
            .field("filled", filled)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use base::{DatabaseIndex, ShardIndex};

    use super::*;
    use crate::arena::ArenaConfig;
    use crate::layout::AccessMark;
    use crate::segment_source::HeapSource;
    use crate::table::{NewValue, Source, Table};
    use crate::{Encoding, ValueType};

    #[test]
    fn miri_value_lies_where_it_was_received_and_stays_while_it_is_held() {
        let config =
            ArenaConfig { shard_count: 1, database_count: 1, hash_keys: base::HashKeys::fixed(7) };
        let source = Box::new(HeapSource::new(1 << 16, 64));
        let arena = Arena::new(source, config).expect("the range is large enough");
        let (shard, database) = (ShardIndex(0), DatabaseIndex(0));
        let table = Table::new(arena.clone(), shard, database, LimitPolicy::Limited);
        let mut table = table.expect("there is room");
        let hash = arena.hasher().hash(b"key");
        let value: Vec<u8> = (0..5_000_u32).map(|at| (at % 251) as u8).collect();

        let mut block = arena.reserve_block(3, 5_000).expect("there is room");
        block.append(&value[..1_001]);
        assert_eq!(block.value(), &value[..1_001]);
        block.room()[..3_000].copy_from_slice(&value[1_001..4_001]);
        block.advance(3_000);
        block.append(&value[4_001..]);
        let held = block.hold().expect("a slot is free");
        assert!(!block.is_value(&value, 3) && !block.is_value(held.as_ref(), 65));
        let new = NewValue {
            bytes: &[],
            value_type: ValueType::String,
            encoding: Encoding::Raw,
            expiry: None,
            mark: AccessMark { word: 1, counts: false },
        };
        let source = Source::Reserved(&mut block);
        let id = table.insert_from(hash, b"key", source, &new).expect("there is room");
        drop(block);
        assert_eq!(table.entry(id).value().as_ptr(), held.as_ref().as_ptr());
        assert!(!table.remove(id), "the hold keeps the memory");
        assert_eq!(held.as_ref(), value);
        drop(held);
        arena.reclaim();
        assert_eq!((arena.usage().extent_bytes, arena.reserved_bytes()), (0, 0));

        let mut given_up = arena.reserve_block(3, 5_000).expect("there is room");
        given_up.append(b"a part");
        assert!(arena.reserved_bytes() >= 5_000);
        drop(given_up);
        assert_eq!((arena.usage().extent_bytes, arena.reserved_bytes()), (0, 0));
    }
}
