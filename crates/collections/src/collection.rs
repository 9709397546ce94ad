//! One type for a collection of any kind.

use crate::hash::Hash;
use crate::list::List;
use crate::set::{Set, SetForm};
use crate::sorted_set::SortedSet;

/// A value of many parts.
#[derive(Clone)]
pub enum Collection {
    /// Elements in order.
    List(List),
    /// Members, each once.
    Set(Set),
    /// Fields, each with a value.
    Hash(Hash),
    /// Members with scores.
    SortedSet(SortedSet),
}

/// How a collection is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionEncoding {
    /// One listpack.
    Listpack,
    /// Several listpacks.
    Quicklist,
    /// Integers in one block.
    Intset,
    /// A table.
    HashTable,
    /// A table with an order.
    Skiplist,
}

impl CollectionEncoding {
    /// Returns the name in OBJECT ENCODING: Redis's for the structure that is in this place there.
    pub const fn name(self) -> &'static str {
        match self {
            CollectionEncoding::Listpack => "listpack",
            CollectionEncoding::Quicklist => "quicklist",
            CollectionEncoding::Intset => "intset",
            CollectionEncoding::HashTable => "hashtable",
            CollectionEncoding::Skiplist => "skiplist",
        }
    }
}

impl Collection {
    /// Returns the number of elements, members or fields.
    pub fn len(&self) -> usize {
        match self {
            Collection::List(list) => list.len(),
            Collection::Set(set) => set.len(),
            Collection::Hash(hash) => hash.len(),
            Collection::SortedSet(set) => set.len(),
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that it takes beside itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Collection::List(list) => list.memory_bytes(),
            Collection::Set(set) => set.memory_bytes(),
            Collection::Hash(hash) => hash.memory_bytes(),
            Collection::SortedSet(set) => set.memory_bytes(),
        }
    }

    /// Returns how it is stored.
    pub fn encoding(&self) -> CollectionEncoding {
        let small_or = |is_small: bool, large: CollectionEncoding| match is_small {
            true => CollectionEncoding::Listpack,
            false => large,
        };
        match self {
            Collection::List(list) => small_or(list.is_small(), CollectionEncoding::Quicklist),
            Collection::Hash(hash) => small_or(hash.is_small(), CollectionEncoding::HashTable),
            Collection::SortedSet(set) => small_or(set.is_small(), CollectionEncoding::Skiplist),
            Collection::Set(set) => match set.form() {
                SetForm::Integers => CollectionEncoding::Intset,
                SetForm::Small => CollectionEncoding::Listpack,
                SetForm::Large => CollectionEncoding::HashTable,
            },
        }
    }
}
