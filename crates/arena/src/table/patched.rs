//! Single bytes of a value, anywhere within it, written in one step.

use std::sync::atomic::Ordering;

use crate::layout::{Encoding, Header, Location, block, block_value_offset};
use crate::mapped_range::NeedRoom;
use crate::protocol_rules::{Rule, holds, linger};

use super::large::{mark, unmark};
use super::{Content, Entry, EntryId, Table};

impl Table {
    /// Writes each byte of `changes` at its offset within the value at `id`; readers see all of
    /// them or none. A value that a reader holds is copied first, whole.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    ///
    /// # Panics
    /// When an offset lies beyond the value.
    pub fn patch(
        &mut self,
        id: EntryId,
        changes: &[(u64, u8)],
        encoding: Encoding,
    ) -> Result<EntryId, NeedRoom> {
        self.own(id)?;
        let length = self.entry(id).value_length();
        assert!(changes.iter().all(|(offset, _)| *offset < length), "the value keeps its length");
        match self.entry(id).header().is_large() {
            false => self.patch_small(id, changes, encoding),
            true if self.patch_large(id, changes, encoding) => {}
            true => return self.patch_copy(id, changes, encoding),
        }
        Ok(id)
    }

    fn patch_small(&mut self, id: EntryId, changes: &[(u64, u8)], encoding: Encoding) {
        let entry = self.entry(id);
        let (header, key_length) = (entry.header(), entry.key().len() as u64);
        let value = id.reference + header.prefix_bytes() + key_length;
        let home = self.bucket(id.home);
        home.begin(Rule::OddWhileOverwriting);
        let changed = header.with_encoding(encoding);
        self.memory.word(id.reference).store(changed.0, Ordering::Relaxed);
        linger(Rule::OddWhileOverwriting);
        self.write_changes_at(value, changes);
        home.end(Rule::OddWhileOverwriting);
    }

    /// Returns whether no reader holds the block.
    fn patch_large(&mut self, id: EntryId, changes: &[(u64, u8)], encoding: Encoding) -> bool {
        let word = self.memory.word(id.reference + 8);
        let location = Location(word.load(Ordering::Relaxed));
        let start = location.offset();
        let key_length = self.memory.word(start + block::KEY_LENGTH).load(Ordering::Relaxed);
        let home = self.bucket(id.home);
        home.begin(Rule::OddWhileOverwriting);
        mark(word);
        let is_free = !(self.arena.pins().is_pinned(start) && holds(Rule::PinnedUnchanged));
        if is_free {
            self.write_changes_at(start + block_value_offset(key_length), changes);
            let header = self.memory.word(id.reference);
            let changed = Header(header.load(Ordering::Relaxed)).with_encoding(encoding);
            header.store(changed.0, Ordering::Relaxed);
        }
        unmark(word, location.next_at(start));
        home.end(Rule::OddWhileOverwriting);
        is_free
    }

    /// Gives the large value at `id` another block, with `changes`.
    #[cold]
    fn patch_copy(
        &mut self,
        id: EntryId,
        changes: &[(u64, u8)],
        encoding: Encoding,
    ) -> Result<EntryId, NeedRoom> {
        let memory = self.memory.clone();
        let entry = Entry::at(&memory, id.reference);
        let (header, expiry) = (entry.header().with_encoding(encoding), entry.expiry());
        let mut bytes = entry.value().to_vec();
        for (offset, byte) in changes {
            bytes[*offset as usize] = *byte;
        }
        let parts = [&bytes[..], &[], &[]];
        let content =
            Content { header, expiry, key: entry.key(), parts, gap: 0, fill: None, spare: 0 };
        self.put(id, &content)
    }

    fn write_changes_at(&self, value: u64, changes: &[(u64, u8)]) {
        changes.iter().for_each(|(offset, byte)| self.write_bytes(value + offset, &[*byte]));
    }
}
