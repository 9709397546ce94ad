//! The content of an entry, and how it comes into memory: over what it was, where that fits, or
//! into new memory that nothing refers to yet.

use std::sync::atomic::{AtomicU64, Ordering};

use base::UnixMs;

use super::{EntryId, Table};
use crate::atomic_copy::{store_bytes, store_zeroes};
use crate::layout::{Encoding, Header, SMALL_ENTRY_BYTES_MAX, small_entry_bytes};
use crate::mapped_range::NeedRoom;
use crate::protocol_rules::{Rule, linger};
use crate::sequence;
use crate::size_class::item_class;
use crate::upload_region::Uploaded;

/// How much of a value is asked of a [`Fill`] at once.
const FILLED_BYTES: usize = 4096;

/// Writes the piece of a value that begins at an offset: the whole slice, and the same bytes
/// whenever it is asked.
pub type Fill<'a> = &'a dyn Fn(usize, &mut [u8]);

/// The new content of an entry, its value in up to three parts and a gap behind the first.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    /// Type, encoding and mark; lengths and flags are set when it is stored.
    pub(super) header: Header,
    pub(super) expiry: Option<UnixMs>,
    pub(super) key: &'a [u8],
    pub(super) parts: [&'a [u8]; 3],
    pub(super) gap: u64,
    /// The bytes of the gap; zeroes where none are given.
    pub(super) fill: Option<Filling<'a>>,
    /// Room to leave behind the value of a large entry.
    pub(super) spare: u64,
}

/// Where the bytes of a gap come from.
#[derive(Clone, Copy)]
pub(super) enum Filling<'a> {
    /// They are made where they stay.
    By(Fill<'a>),
    /// A client has written them; the gap is all of the value.
    Uploaded(Uploaded<'a>),
    /// They are there: this block, which is reserved, is to be the entry's; the gap is all of the
    /// value.
    Reserved(u64),
}

impl Content<'_> {
    pub(super) fn value_length(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum::<u64>() + self.gap
    }

    /// Returns the class of the item that the content takes as a small entry of `bytes`.
    pub(super) fn class(&self, bytes: u64) -> u8 {
        item_class(self.header, bytes)
    }
}

impl Table {
    /// Stores `content` as what the entry at `id` has become: its cost stays.
    pub(super) fn put(&mut self, id: EntryId, content: &Content<'_>) -> Result<EntryId, NeedRoom> {
        let cost = self.entry(id).cost();
        let id = self.put_other(id, content)?;
        self.keep_cost(id, cost);
        Ok(id)
    }

    /// Stores `content` as the entry at `id`, in place of what it was and without its cost: in its
    /// memory, or in new memory that takes its slot.
    pub(super) fn put_other(
        &mut self,
        id: EntryId,
        content: &Content<'_>,
    ) -> Result<EntryId, NeedRoom> {
        let entry = self.entry(id);
        let old = entry.header();
        let position = self.volatile_position_for(id.reference, old, content.expiry);
        let target = small_entry_bytes(
            content.key.len() as u64,
            content.value_length(),
            content.expiry.is_some(),
        );
        let in_place =
            !old.is_large() && target.is_some_and(|bytes| content.class(bytes) == entry.class());
        let mut before = id.reference;
        let reference = if in_place {
            let home = self.bucket(id.home);
            home.begin(Rule::OddWhileOverwriting);
            self.write_small(id.reference, content, position, Some(old));
            home.end(Rule::OddWhileOverwriting);
            id.reference
        } else if old.is_large() && target.is_none() {
            self.replace_block(id, content, position)?;
            id.reference
        } else {
            let reference = self.store_new(content, position)?;
            // Compaction for the new item may have moved the old one.
            before = self.reference_now(id, content.key);
            self.relink_slot(EntryId { reference: before, ..id }, reference);
            reference
        };
        self.settle_volatile(old, content.expiry, position, reference);
        if reference != before {
            self.free_content(before, old);
        }
        Ok(EntryId { reference, ..id })
    }

    /// Writes `content` to new memory that nothing refers to yet; returns its reference.
    pub(super) fn store_new(
        &mut self,
        content: &Content<'_>,
        position: u64,
    ) -> Result<u64, NeedRoom> {
        let key_length = content.key.len() as u64;
        let ttl = content.expiry.is_some();
        match small_entry_bytes(key_length, content.value_length(), ttl) {
            Some(bytes) => {
                let item = self.take_item(content.class(bytes), self.terms())?;
                sequence::before_reuse::<AtomicU64>();
                self.write_small(item, content, position, None);
                Ok(item)
            }
            None => self.store_large(content, position),
        }
    }

    /// Writes all words of a small entry; over one with header `old` and the same key, the key only
    /// where it moves.
    pub(super) fn write_small(
        &self,
        item: u64,
        content: &Content<'_>,
        position: u64,
        old: Option<Header>,
    ) {
        let (key_length, value_length) = (content.key.len() as u64, content.value_length());
        let header = content
            .header
            .with_ttl(content.expiry.is_some())
            .with_lengths(key_length, value_length);
        let store = |at: u64, word: u64| self.memory.word(item + at).store(word, Ordering::Relaxed);
        store(0, header.0);
        if header.is_long() {
            store(8, key_length | value_length << 32);
        }
        if let Some(at) = content.expiry {
            store(header.prefix_bytes() - 16, at.0 as u64);
            store(header.prefix_bytes() - 8, position);
        }
        linger(Rule::OddWhileOverwriting);
        let prefix = header.prefix_bytes();
        if old.is_none_or(|old| old.prefix_bytes() != prefix) {
            self.write_bytes(item + prefix, content.key);
        }
        self.write_parts(item + prefix + key_length, content);
    }

    pub(super) fn write_parts(&self, offset: u64, content: &Content<'_>) {
        let [before, middle, after] = content.parts;
        self.write_bytes(offset, before);
        let mut at = offset + before.len() as u64;
        match content.fill {
            Some(Filling::By(fill)) => self.write_filled(at, content.gap as usize, fill),
            Some(Filling::Uploaded(value)) => self.memory.copy_uploaded(at, value),
            Some(Filling::Reserved(_)) => {}
            None if content.gap > 0 => self.write_zeroes(at, content.gap),
            None => {}
        }
        at += content.gap;
        self.write_bytes(at, middle);
        self.write_bytes(at + middle.len() as u64, after);
    }

    /// Writes what `fill` gives.
    fn write_filled(&self, offset: u64, length: usize, fill: Fill<'_>) {
        const SMALL_BYTES: usize = 128;
        if length <= SMALL_BYTES {
            // To clear a whole piece would take longer than all the rest.
            self.write_pieces::<SMALL_BYTES>(offset, length, fill);
        } else if (length as u64) < SMALL_ENTRY_BYTES_MAX || cfg!(miri) {
            // Under miri readers are threads of the same program: plain stores would be a race.
            self.write_pieces::<FILLED_BYTES>(offset, length, fill);
        } else {
            self.fill_block(offset, length, fill);
        }
    }

    /// Has `fill` write to a block that no entry refers to yet, which every value is that is too
    /// long for a small entry. A copy of what it gives would take longer than most that it does.
    fn fill_block(&self, offset: u64, length: usize, fill: Fill<'_>) {
        // SAFETY: the bytes are committed memory of a block that this table has allocated and that
        // nothing refers to, initialised as all memory of a source is: no thread of this process
        // finds it. A reader in another process that follows a stale reference may see them change
        // and discards what it saw.
        let room = unsafe { std::slice::from_raw_parts_mut(self.memory.pointer(offset), length) };
        // Piece by piece: what goes over one several times finds it in the cache.
        for (index, piece) in room.chunks_mut(FILLED_BYTES).enumerate() {
            fill(index * FILLED_BYTES, piece);
        }
    }

    fn write_pieces<const BYTES: usize>(&self, offset: u64, length: usize, fill: Fill<'_>) {
        let mut piece = [0; BYTES];
        for start in (0..length).step_by(BYTES) {
            let piece = &mut piece[..BYTES.min(length - start)];
            fill(start, piece);
            self.write_bytes(offset + start as u64, piece);
        }
    }

    pub(super) fn write_bytes(&self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // SAFETY: the range belongs to an item or block of this table: committed, made of whole
        // words, so that widening does not leave it. Only the holder of `&mut` (or of the shard's
        // lock) writes it; `bytes` lies outside of it: callers pass memory
        // of their own, the scratch, or a large entry's block, which is another than this one.
        unsafe { store_bytes(self.memory.pointer(offset), bytes) };
    }

    /// Changes part of the value where it lies; returns false where it cannot.
    pub(super) fn overwrite_in_place(
        &mut self,
        id: EntryId,
        offset: u64,
        bytes: &[u8],
        encoding: Encoding,
    ) -> bool {
        let entry = self.entry(id);
        let header = entry.header();
        if header.is_large() {
            return self.overwrite_large_in_place(id, offset, bytes, encoding);
        }
        let (key_length, old) = (entry.key().len() as u64, entry.value_length());
        let cost = entry.cost();
        let length = old.max(offset + bytes.len() as u64);
        let Some(total) = small_entry_bytes(key_length, length, header.has_ttl()) else {
            return false;
        };
        let new = header.with_encoding(encoding).with_lengths(key_length, length);
        if item_class(header, total) != entry.class() || new.is_long() != header.is_long() {
            return false;
        }
        let value = id.reference + header.prefix_bytes() + key_length;
        let home = self.bucket(id.home);
        home.begin(Rule::OddWhileOverwriting);
        self.memory.word(id.reference).store(new.0, Ordering::Relaxed);
        if new.is_long() {
            self.memory.word(id.reference + 8).store(key_length | length << 32, Ordering::Relaxed);
        }
        linger(Rule::OddWhileOverwriting);
        if offset > old {
            self.write_zeroes(value + old, offset - old);
        }
        self.write_bytes(value + offset, bytes);
        home.end(Rule::OddWhileOverwriting);
        self.keep_cost(id, cost);
        true
    }

    pub(super) fn write_zeroes(&self, offset: u64, length: u64) {
        // SAFETY: the range belongs to an item or block of this table, as in `write_bytes`: whole
        // words of committed memory, which only the holder of `&mut` or of the shard's lock writes.
        unsafe { store_zeroes(self.memory.pointer(offset), length) };
    }
}
