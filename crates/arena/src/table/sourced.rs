//! Values whose bytes the caller does not have: made where they stay, received there, or in upload
//! memory.

use crate::layout::{Cost, Header};
use crate::mapped_range::NeedRoom;
use crate::reserved::ReservedBlock;

use super::{ADOPTED_BYTES_MIN, EntryId, Fill, Filling, NewValue, Table, Uploaded};

/// Where the bytes of a value come from. What a [`NewValue`] beside it says is all but these bytes.
pub enum Source<'a> {
    /// So many, which the function writes where they stay.
    Made(u64, Fill<'a>),
    /// A client has written them: copied from there once, or left there.
    Uploaded(Uploaded<'a>),
    /// They lie in this block, which is the entry's from here on.
    Reserved(&'a mut ReservedBlock),
    /// These few, behind the bytes of the value.
    Tail(&'a [u8]),
    /// None but those of the value, of an entry that knows a cost.
    Costed(Cost),
}

impl Table {
    /// Adds `key`, which must be absent, with the bytes of `source`; those of `value` follow them.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    ///
    /// # Panics
    /// When the value is to stay in upload memory and shorter than [`ADOPTED_BYTES_MIN`], when
    /// `source` is not to be made and `value` has bytes too, or when a block is not complete or was
    /// reserved for another key.
    pub fn insert_from(
        &mut self,
        hash: u64,
        key: &[u8],
        source: Source<'_>,
        value: &NewValue<'_>,
    ) -> Result<EntryId, NeedRoom> {
        let (gap, tail) = (self.gap_of(&source, key, value), source.tail());
        let id = self.insert_parts(hash, key, gap, source.header_of(value), value, tail)?;
        self.keep_cost(id, source.cost());
        source.note_stored();
        Ok(id)
    }

    /// As [`Table::replace`], with the bytes of `source` behind those of `value`.
    ///
    /// # Errors
    /// NeedRoom, and nothing has changed.
    ///
    /// # Panics
    /// As [`Table::insert_from`].
    pub fn replace_from(
        &mut self,
        id: EntryId,
        key: &[u8],
        source: Source<'_>,
        value: &NewValue<'_>,
    ) -> Result<EntryId, NeedRoom> {
        let (gap, tail) = (self.gap_of(&source, key, value), source.tail());
        let id = self.replace_parts(id, key, gap, source.header_of(value), value, tail)?;
        self.keep_cost(id, source.cost());
        source.note_stored();
        Ok(id)
    }

    /// Returns the gap that `source` fills, and how.
    fn gap_of<'a>(
        &self,
        source: &Source<'a>,
        key: &[u8],
        value: &NewValue<'_>,
    ) -> (u64, Option<Filling<'a>>) {
        let (length, filling) = match source {
            Source::Made(length, fill) => return (*length, Some(Filling::By(*fill))),
            Source::Tail(_) | Source::Costed(_) => return (0, None),
            Source::Uploaded(uploaded) => {
                assert!(!uploaded.stays || uploaded.length >= ADOPTED_BYTES_MIN, "it is large");
                (uploaded.length, Filling::Uploaded(*uploaded))
            }
            Source::Reserved(block) => {
                let (block, length) = block.linkable(&self.arena, key);
                (length, Filling::Reserved(block))
            }
        };
        assert!(value.bytes.is_empty(), "the whole value comes from there");
        (length, Some(filling))
    }
}

impl<'a> Source<'a> {
    fn tail(&self) -> &'a [u8] {
        match *self {
            Source::Tail(tail) => tail,
            _ => &[],
        }
    }

    fn cost(&self) -> Cost {
        match *self {
            Source::Costed(cost) => cost,
            _ => Cost::ONE,
        }
    }

    fn header_of(&self, value: &NewValue<'_>) -> Header {
        match self.cost() {
            Cost::ONE => value.header(),
            _ => value.header().costed(),
        }
    }

    /// Notes that an entry has the value.
    fn note_stored(self) {
        if let Source::Reserved(block) = self {
            block.note_linked();
        }
    }
}
