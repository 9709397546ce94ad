//! Values that were received where they stay: their blocks become those of entries.

use crate::memory::NeedRoom;
use crate::reserved::ReservedBlock;

use super::{Content, EntryId, Filling, NewValue, Table};

impl Content<'_> {
    /// Returns the reserved block in which the value lies already.
    pub(super) fn reserved_block(&self) -> Option<u64> {
        match self.fill {
            Some(Filling::Reserved(block)) => Some(block),
            _ => None,
        }
    }
}

impl Table {
    /// Adds `key`, which must be absent; the bytes of `value` lie in `block` already, which is the
    /// entry's from here on.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    ///
    /// # Panics
    /// When the block has another value, or was reserved for another key.
    pub fn insert_reserved(
        &mut self,
        hash: u64,
        key: &[u8],
        block: &mut ReservedBlock,
        value: &NewValue<'_>,
    ) -> Result<EntryId, NeedRoom> {
        let fill = Filling::Reserved(block.linkable(&self.arena, key, value.bytes));
        let there = (value.bytes.len() as u64, Some(fill));
        let inserted = self.insert_parts(hash, key, there, &NewValue { bytes: &[], ..*value })?;
        block.note_linked();
        Ok(inserted)
    }

    /// As [`Table::replace`], with a value that lies in `block` already, as
    /// [`Table::insert_reserved`] takes it.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    ///
    /// # Panics
    /// When the block has another value, or was reserved for another key.
    pub fn replace_reserved(
        &mut self,
        id: EntryId,
        key: &[u8],
        block: &mut ReservedBlock,
        value: &NewValue<'_>,
    ) -> Result<EntryId, NeedRoom> {
        let fill = Filling::Reserved(block.linkable(&self.arena, key, value.bytes));
        let there = (value.bytes.len() as u64, Some(fill));
        let replaced = self.replace_parts(id, key, there, &NewValue { bytes: &[], ..*value })?;
        block.note_linked();
        Ok(replaced)
    }
}
