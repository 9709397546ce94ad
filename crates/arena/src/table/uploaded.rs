//! Values that lie in upload memory: large entries whose blocks end with their keys.
//!
//! Their blocks are treated like any others; a command that needs the bytes of such a value makes
//! the table own it first.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::mapped_range::{MappedRange, NeedRoom};
use crate::pin_slots::{Pin, PinSlots};
use crate::reserved::ReservedBlock;

use super::{Content, Entry, EntryId, Filling, Table, Uploaded, copy_block};

/// The least value that can be left in upload memory, in bytes: a smaller one may be a small entry.
pub const ADOPTED_BYTES_MIN: u64 = 4096;

const _: () = assert!(ADOPTED_BYTES_MIN > crate::layout::SMALL_ENTRY_BYTES_MAX, "always large");

/// An adopted value that stays where it lies until this is dropped, whatever becomes of its key;
/// its client may change its bytes.
pub struct HeldUpload {
    block: u64,
    offset: u64,
    length: u64,
    _pin: Pin<Arc<PinSlots>>,
}

impl HeldUpload {
    pub(crate) fn uploaded(&self) -> Uploaded<'_> {
        Uploaded { offset: self.offset, length: self.length, stays: false, claim: PhantomData }
    }
}

impl Content<'_> {
    /// Returns where the value stays in upload memory; 0 where it does not.
    pub(super) fn stays_at(&self) -> u64 {
        match self.fill {
            Some(Filling::Uploaded(value)) if value.stays => value.offset,
            _ => 0,
        }
    }

    /// Returns the reserved block in which the value lies already.
    pub(super) fn reserved_block(&self) -> Option<u64> {
        match self.fill {
            Some(Filling::Reserved(block)) => Some(block),
            _ => None,
        }
    }
}

impl Table {
    /// Copies the value at `id` to memory that no client can write, where it lies in such. The
    /// entry stays where it is and what it is: that is no change of the dataset.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    pub fn own(&mut self, id: EntryId) -> Result<(), NeedRoom> {
        if self.entry(id).is_adopted() { self.own_adopted(id) } else { Ok(()) }
    }

    #[cold]
    fn own_adopted(&mut self, id: EntryId) -> Result<(), NeedRoom> {
        let uploaded = adopted_value(&self.entry(id));
        self.own_as(id, uploaded.length, Filling::Uploaded(uploaded))?;
        self.arena.uploads().count_owned();
        Ok(())
    }

    /// Holds the value at `id`, to be copied without this table: [`crate::Arena::copy_adopted`].
    /// `None` where it is not adopted, and when this process holds as many values as it can.
    pub fn hold_adopted(&self, id: EntryId) -> Option<HeldUpload> {
        let entry = self.entry(id);
        let block = entry.large_block().filter(|_| entry.is_adopted())?;
        // In time without a second look, as in `Table::hold`.
        let pin = PinSlots::pin(self.arena.own_pins().clone(), block)?;
        let Uploaded { offset, length, .. } = adopted_value(&entry);
        Some(HeldUpload { block, offset, length, _pin: pin })
    }

    /// As [`Table::own`], with the copy of the `held` value in `copy`, unless the entry has another
    /// value by now.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    ///
    /// # Panics
    /// When the block is no copy of the value, or was reserved for another key.
    pub fn own_with(
        &mut self,
        id: EntryId,
        held: HeldUpload,
        copy: &mut ReservedBlock,
    ) -> Result<(), NeedRoom> {
        // While it is held no other value has its block.
        if self.entry(id).large_block() != Some(held.block) {
            return Ok(());
        }
        let (block, length) = copy.linkable(&self.arena, self.entry(id).key());
        assert_eq!(length, held.length, "the copy is one of this value");
        // The hold goes first: the old block would have to wait for it.
        drop(held);
        self.own_as(id, length, Filling::Reserved(block))?;
        copy.note_linked();
        Ok(())
    }

    /// Gives the entry at `id` its value of `length` bytes anew, from `filling`.
    fn own_as(&mut self, id: EntryId, length: u64, fill: Filling<'_>) -> Result<(), NeedRoom> {
        let entry = self.entry(id);
        let (header, expiry, key) = (entry.header(), entry.expiry(), entry.key().to_vec());
        let (parts, fill, grace): ([&[u8]; 3], _, _) = ([&[]; 3], Some(fill), entry.grace());
        let content = Content { header, expiry, key: &key, parts, gap: length, fill, spare: 0 };
        let id = self.put(id, &content)?;
        self.set_grace(id, grace);
        Ok(())
    }
}

impl MappedRange {
    /// Copies `value` to new memory at `offset` that nothing refers to yet.
    pub(crate) fn copy_uploaded(&self, offset: u64, value: Uploaded<'_>) {
        let (target, source) = (self.pointer(offset), self.pointer(value.offset));
        // SAFETY: the target belongs to a new block, of which nobody else knows; the source is a
        // range of a run, mapped for as long as a claim, an entry or a pin holds it. The two are in
        // different regions.
        unsafe { copy_block(target, source, value.length) };
    }
}

/// Returns the value of an adopted entry, to be copied. It stays until its block is freed, which
/// takes the table that the caller holds.
fn adopted_value(entry: &Entry<'_>) -> Uploaded<'static> {
    let (offset, length) = (entry.value_at(), entry.value_length());
    Uploaded { offset, length, stays: false, claim: PhantomData }
}
