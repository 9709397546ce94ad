//! Values that come from upload memory: copied from there once, or left there.
//!
//! A value that is left is a large entry whose block ends with its key. All that is done to blocks
//! is done to it as to any other; whoever needs its bytes makes the table own it first.

use crate::memory::NeedRoom;

use super::{Content, Entry, EntryId, Filling, NewValue, Table, Uploaded, copy_block};

/// The least value that can be left in upload memory, in bytes: a smaller one may be a small entry.
pub const ADOPTED_BYTES_MIN: u64 = 4096;

const _: () = assert!(ADOPTED_BYTES_MIN > crate::layout::SMALL_ENTRY_BYTES_MAX, "always large");

impl Content<'_> {
    /// Returns where the value stays in upload memory; 0 where it does not.
    pub(super) fn stays_at(&self) -> u64 {
        match self.fill {
            Some(Filling::Uploaded(value)) if value.stays => value.offset,
            _ => 0,
        }
    }
}

impl Table {
    /// Adds `key`, which must be absent, with a value from upload memory; `value` says all but the
    /// bytes, of which it has none.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    ///
    /// # Panics
    /// When the value is to stay and shorter than [`ADOPTED_BYTES_MIN`].
    pub fn insert_uploaded(
        &mut self,
        hash: u64,
        key: &[u8],
        uploaded: Uploaded<'_>,
        value: &NewValue<'_>,
    ) -> Result<EntryId, NeedRoom> {
        let gap = length_of(uploaded, value);
        self.insert_parts(hash, key, (gap, Some(Filling::Uploaded(uploaded))), value)
    }

    /// As [`Table::replace`], with a value from upload memory.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    ///
    /// # Panics
    /// As [`Table::insert_uploaded`].
    pub fn replace_uploaded(
        &mut self,
        id: EntryId,
        key: &[u8],
        uploaded: Uploaded<'_>,
        value: &NewValue<'_>,
    ) -> Result<EntryId, NeedRoom> {
        let gap = length_of(uploaded, value);
        self.replace_parts(id, key, (gap, Some(Filling::Uploaded(uploaded))), value)
    }

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
        let entry = self.entry(id);
        let (header, expiry) = (entry.header(), entry.expiry());
        let (key, uploaded) = (entry.key().to_vec(), adopted_value(&entry));
        let fill = Some(Filling::Uploaded(uploaded));
        let parts: [&[u8]; 3] = [&[]; 3];
        let content =
            Content { header, expiry, key: &key, parts, gap: uploaded.length, fill, spare: 0 };
        self.put(id, &content)?;
        self.arena.uploads().count_owned();
        Ok(())
    }

    /// Copies `value` to new memory at `offset` that nothing refers to yet.
    pub(super) fn write_uploaded(&self, offset: u64, value: Uploaded<'_>) {
        let (target, source) = (self.memory.pointer(offset), self.memory.pointer(value.offset));
        // SAFETY: the target belongs to a new block of this table, which nobody else writes; the
        // source is a range of a run, mapped for as long as a claim or an entry holds it. The two
        // are in different regions.
        unsafe { copy_block(target, source, value.length) };
    }
}

/// Returns the value of an adopted entry, to be copied. It stays until its block is freed, which
/// takes the table that the caller holds.
fn adopted_value(entry: &Entry<'_>) -> Uploaded<'static> {
    let (offset, length) = (entry.value_at(), entry.value_length());
    Uploaded { offset, length, stays: false, claim: std::marker::PhantomData }
}

fn length_of(uploaded: Uploaded<'_>, value: &NewValue<'_>) -> u64 {
    assert!(value.bytes.is_empty(), "the value comes from upload memory");
    assert!(!uploaded.stays || uploaded.length >= ADOPTED_BYTES_MIN, "it is large");
    uploaded.length
}
