//! The compact form of a collection: all of it in one block of bytes.

use crate::intset::IntsetView;
use crate::listpack_view::ListpackView;

/// A whole collection in one block, wherever that lies.
#[derive(Clone, Copy, Debug)]
pub enum Compact<'a> {
    /// Elements, members, or pairs one after the other.
    Listpack(ListpackView<'a>),
    /// The members of a set, all of them integers.
    Intset(IntsetView<'a>),
}

impl<'a> Compact<'a> {
    /// Returns the block.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Compact::Listpack(pack) => pack.bytes(),
            Compact::Intset(set) => set.bytes(),
        }
    }

    /// Returns the listpack.
    ///
    /// # Panics
    /// When it is none: the caller has a type that has no other compact form.
    #[inline]
    pub(crate) fn pack(self) -> ListpackView<'a> {
        match self {
            Compact::Listpack(pack) => pack,
            Compact::Intset(_) => panic!("only a set is a block of integers"),
        }
    }
}
