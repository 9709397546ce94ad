//! One type for a collection of any kind.

use base::UnixMs;

use crate::compact::Compact;
use crate::hash::{Hash, HashView};
use crate::list::{List, ListView};
use crate::set::{Set, SetView};
use crate::sorted_set::{SortedSet, SortedSetView};
use crate::stream::Stream;

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
    /// Entries in order, and groups of consumers.
    Stream(Stream),
}

/// A collection of any kind to read, wherever it lies.
#[derive(Clone, Copy)]
pub enum CollectionView<'a> {
    /// Elements in order.
    List(ListView<'a>),
    /// Members, each once.
    Set(SetView<'a>),
    /// Fields, each with a value.
    Hash(HashView<'a>),
    /// Members with scores.
    SortedSet(SortedSetView<'a>),
    /// Entries in order, and groups of consumers.
    Stream(&'a Stream),
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
    /// Listpacks of entries in order.
    Stream,
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
            CollectionEncoding::Stream => "stream",
        }
    }
}

impl Collection {
    /// Returns it, to read.
    #[inline]
    pub fn view(&self) -> CollectionView<'_> {
        match self {
            Collection::List(list) => CollectionView::List(list.view()),
            Collection::Set(set) => CollectionView::Set(set.view()),
            Collection::Hash(hash) => CollectionView::Hash(hash.view()),
            Collection::SortedSet(set) => CollectionView::SortedSet(set.view()),
            Collection::Stream(stream) => CollectionView::Stream(stream),
        }
    }

    /// Returns the number of elements, members or fields.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Collection::List(list) => list.len(),
            Collection::Set(set) => set.len(),
            Collection::Hash(hash) => hash.len(),
            Collection::SortedSet(set) => set.len(),
            Collection::Stream(stream) => stream.len(),
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
            Collection::Stream(stream) => stream.memory_bytes(),
        }
    }

    /// Returns how it is stored.
    pub fn encoding(&self) -> CollectionEncoding {
        self.view().encoding()
    }

    /// Returns when the first of the fields expires, of a hash where one does.
    #[inline]
    pub fn next_expiry(&self) -> Option<UnixMs> {
        match self {
            Collection::Hash(hash) => hash.next_expiry(),
            Collection::List(_)
            | Collection::Set(_)
            | Collection::SortedSet(_)
            | Collection::Stream(_) => None,
        }
    }

    /// Tells a collection whose parts expire which key it is the value of; others do not keep it.
    #[inline]
    pub fn set_key(&mut self, key: &[u8]) {
        if let Collection::Hash(hash) = self {
            hash.set_key(key);
        }
    }
}

impl<'a> CollectionView<'a> {
    /// Returns the number of elements, members or fields.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            CollectionView::List(list) => list.len(),
            CollectionView::Set(set) => set.len(),
            CollectionView::Hash(hash) => hash.len(),
            CollectionView::SortedSet(set) => set.len(),
            CollectionView::Stream(stream) => stream.len(),
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes that its parts take: of a compact form, those of the block alone.
    pub fn memory_bytes(self) -> u64 {
        match self {
            CollectionView::List(list) => list.memory_bytes(),
            CollectionView::Set(set) => set.memory_bytes(),
            CollectionView::Hash(hash) => hash.memory_bytes(),
            CollectionView::SortedSet(set) => set.memory_bytes(),
            CollectionView::Stream(stream) => stream.memory_bytes(),
        }
    }

    /// Returns the compact form, where it has one.
    #[inline]
    pub fn compact(self) -> Option<Compact<'a>> {
        match self {
            CollectionView::List(list) => list.compact(),
            CollectionView::Set(set) => set.compact(),
            CollectionView::Hash(hash) => hash.compact(),
            CollectionView::SortedSet(set) => set.compact(),
            CollectionView::Stream(_) => None,
        }
    }

    /// Returns the name of the encoding in OBJECT ENCODING: that of a hash with fields that expire
    /// differs where it is compact.
    pub fn encoding_name(self) -> &'static str {
        match self {
            CollectionView::Hash(hash) if hash.is_timed() && hash.is_small() => "listpackex",
            _ => self.encoding().name(),
        }
    }

    /// Returns how the parts are stored.
    pub fn encoding(self) -> CollectionEncoding {
        let small_or = |is_small: bool, large: CollectionEncoding| match is_small {
            true => CollectionEncoding::Listpack,
            false => large,
        };
        match self {
            CollectionView::List(list) => small_or(list.is_small(), CollectionEncoding::Quicklist),
            CollectionView::Hash(hash) => small_or(hash.is_small(), CollectionEncoding::HashTable),
            CollectionView::SortedSet(set) => {
                small_or(set.is_small(), CollectionEncoding::Skiplist)
            }
            CollectionView::Set(set) => set.encoding(),
            CollectionView::Stream(_) => CollectionEncoding::Stream,
        }
    }
}
