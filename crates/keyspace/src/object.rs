//! An entry together with its value, of any type.

use std::borrow::Cow;
use std::ops::Deref;

use arena::layout::{SMALL_ENTRY_BYTES_MAX, small_entry_bytes};
use arena::{Encoding, Entry, ValueType};
use base::UnixMs;
use collections::{
    Collection, CollectionView, Compact, Hash, HashView, IntsetView, List, ListView, ListpackView,
    Set, SetView, SortedSet, SortedSetView, Stream,
};
use effects::EventClass;

use crate::item::{ItemTail, as_text, tail_of, text_of};
use crate::store::{Handle, SLOT_BYTES, Store};
use crate::view::WrongType;

/// An entry and what it holds, for as long as its shard is not changed.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    entry: Entry<'a>,
    store: &'a Store,
}

/// The value of an [`Object`].
pub enum Content<'a> {
    /// A string; a copy of one that a client can write.
    String(Cow<'a, [u8]>),
    /// A value of many parts.
    Collection(CollectionView<'a>),
}

impl<'a> Object<'a> {
    #[inline]
    pub(crate) fn new(entry: Entry<'a>, store: &'a Store) -> Object<'a> {
        Object { entry, store }
    }

    /// Returns the value.
    pub fn content(&self) -> Content<'a> {
        match self.collection() {
            Some(collection) => Content::Collection(collection),
            None if self.entry.is_adopted() => {
                let mut copy = Vec::new();
                self.entry.value_or_copy(&mut copy);
                Content::String(Cow::Owned(copy))
            }
            None => Content::String(Cow::Borrowed(text_of(&self.entry))),
        }
    }

    /// Returns the collection with all its parts, those that have expired too, unless it is a
    /// string.
    pub fn collection(&self) -> Option<CollectionView<'a>> {
        match handle_of(&self.entry) {
            Some(handle) => Some(self.store.get(handle).view()),
            None => Some(view_of(self.entry.value_type(), compact_of(&self.entry)?)),
        }
    }

    /// Returns what is beside the value of an item of memcached.
    pub fn item_tail(&self) -> Option<ItemTail> {
        tail_of(&self.entry)
    }

    /// Returns the length of a string, without what is behind the value of an item.
    pub fn text_length(&self) -> u64 {
        match self.item_tail() {
            Some(_) => text_of(&self.entry).len() as u64,
            None => self.entry.value_length(),
        }
    }

    /// Returns the bytes of private memory that the value takes.
    #[inline]
    pub fn private_bytes(&self) -> u64 {
        match self.entry.header().encoding_bits() == Encoding::Handle as u64 {
            true => self.collection_bytes(),
            false => 0,
        }
    }

    #[inline(never)]
    fn collection_bytes(&self) -> u64 {
        self.store.get(Handle::of(self.entry.value())).memory_bytes()
    }

    /// Returns the bytes of memory that the key and its value take.
    #[inline(always)]
    pub fn memory_bytes(&self) -> u64 {
        self.entry.memory_bytes() + self.private_bytes()
    }

    /// As [`Object::memory_bytes`], with the slot of a collection in private memory, which is there
    /// for another once the key is gone.
    pub fn memory_bytes_with_slot(&self) -> u64 {
        let has_slot = handle_of(&self.entry).is_some();
        self.memory_bytes() + if has_slot { SLOT_BYTES } else { 0 }
    }

    /// Returns the name in OBJECT ENCODING.
    pub fn encoding_name(&self) -> &'static str {
        match (self.entry.encoding(), self.collection()) {
            (_, Some(collection)) => collection.encoding_name(),
            (encoding, _) => match as_text(encoding, &self.entry) {
                Encoding::Int => "int",
                Encoding::Embstr => "embstr",
                _ => "raw",
            },
        }
    }
}

impl<'a> Deref for Object<'a> {
    type Target = Entry<'a>;

    fn deref(&self) -> &Entry<'a> {
        &self.entry
    }
}

/// Returns where the value of `entry` is, where it is a collection in private memory.
#[inline]
pub(crate) fn handle_of(entry: &Entry<'_>) -> Option<Handle> {
    (entry.encoding() == Encoding::Handle).then(|| Handle::of(entry.value()))
}

/// Returns the collection that is the value of `entry` itself, if it is one.
#[inline]
pub(crate) fn compact_of<'a>(entry: &Entry<'a>) -> Option<Compact<'a>> {
    match entry.encoding() {
        encoding @ (Encoding::Listpack | Encoding::Intset) => compact_in(encoding, entry.value()),
        _ => None,
    }
}

/// Returns the collection that `value`, which is in `encoding`, begins with, if it is one.
#[inline]
pub(crate) fn compact_in(encoding: Encoding, value: &[u8]) -> Option<Compact<'_>> {
    match encoding {
        Encoding::Listpack => Some(Compact::Listpack(ListpackView::at_start_of(value))),
        Encoding::Intset => Some(Compact::Intset(IntsetView::at_start_of(value))),
        _ => None,
    }
}

/// Returns the encoding of an entry whose value is `compact`.
#[inline]
pub(crate) fn encoding_of_compact(compact: Compact<'_>) -> Encoding {
    match compact {
        Compact::Listpack(_) => Encoding::Listpack,
        Compact::Intset(_) => Encoding::Intset,
    }
}

/// Returns the most bytes of the compact form of a collection that is the value of its entry. At an
/// end of a list a change touches a few bytes, so that copying many would be most of its cost;
/// elsewhere it looks at half of them anyway.
#[inline]
pub(crate) const fn compact_bytes_max(value_type: ValueType) -> usize {
    match value_type {
        ValueType::List => 1024,
        _ => SMALL_ENTRY_BYTES_MAX as usize,
    }
}

/// Returns whether a collection of `value_type` whose compact form has `bytes` bytes is the value
/// of the entry of `key`.
#[inline]
pub(crate) fn fits_entry(value_type: ValueType, key: &[u8], bytes: usize) -> bool {
    bytes <= compact_bytes_max(value_type) && stays_small(key, bytes)
}

/// Returns whether the entry of `key` with a value of `bytes` bytes stays in a slab page, even once
/// the key expires.
#[inline]
pub(crate) fn stays_small(key: &[u8], bytes: usize) -> bool {
    small_entry_bytes(key.len() as u64, bytes as u64, true).is_some()
}

/// Returns the collection of type `value_type` whose compact form is `compact`, to read.
fn view_of(value_type: ValueType, compact: Compact<'_>) -> CollectionView<'_> {
    match value_type {
        ValueType::List => CollectionView::List(ListView::of_compact(compact)),
        ValueType::Set => CollectionView::Set(SetView::of_compact(compact)),
        ValueType::Hash => CollectionView::Hash(HashView::of_compact(compact)),
        ValueType::SortedSet => CollectionView::SortedSet(SortedSetView::of_compact(compact)),
        ValueType::Stream => panic!("a stream has no compact form"),
        ValueType::String => panic!("a string is no collection"),
    }
}

/// Returns a collection of type `value_type` of its own whose compact form is `compact`.
pub(crate) fn copy_of(value_type: ValueType, compact: Compact<'_>) -> Collection {
    let memory = Vec::with_capacity(compact.bytes().len());
    match value_type {
        ValueType::List => Collection::List(List::copy_in(compact, memory)),
        ValueType::Set => Collection::Set(Set::copy_in(compact, memory)),
        ValueType::Hash => Collection::Hash(Hash::copy_in(compact, memory)),
        ValueType::SortedSet => Collection::SortedSet(SortedSet::copy_in(compact, memory)),
        ValueType::Stream => panic!("a stream has no compact form"),
        ValueType::String => panic!("a string is no collection"),
    }
}

/// A type of collection.
pub trait Kind: Sized + 'static {
    /// The type's mark in an entry.
    const TYPE: ValueType;
    /// The class of the keyspace events of its changes.
    const CLASS: EventClass;
    /// Whether a key stays that has lost its last part.
    const STAYS_EMPTY: bool = false;

    /// A collection of this type to read, wherever it lies.
    type View<'a>: Copy;

    /// Returns `collection` as this type.
    fn of(collection: &Collection) -> Option<&Self>;

    /// As [`Kind::of`], to change it.
    fn of_mut(collection: &mut Collection) -> Option<&mut Self>;

    /// Returns it, to read, without the parts that have expired by `now`.
    fn view_at(&self, now: UnixMs) -> Self::View<'_>;

    /// Returns the collection whose compact form this is, to read.
    fn of_compact(compact: Compact<'_>) -> Self::View<'_>;

    /// Returns the same of its own, in the memory of `buffer`, whose bytes go.
    fn copy_in(compact: Compact<'_>, buffer: Vec<u8>) -> Self;

    /// Returns the compact form, where it has one.
    fn compact(&self) -> Option<Compact<'_>>;

    /// Returns the memory of the compact form; none where it has none.
    fn into_buffer(self) -> Vec<u8>;

    /// Returns the number of its parts.
    fn part_count(&self) -> usize;

    /// Gives memory back when half of a compact form is unused: taking parts out does not.
    fn give_back(&mut self);

    /// Returns it as a collection.
    fn into_collection(self) -> Collection;
}

macro_rules! kind {
    ($type:ident, $view:ident, $view_at:expr) => {
        impl Kind for $type {
            const TYPE: ValueType = ValueType::$type;
            const CLASS: EventClass = EventClass::$type;

            type View<'a> = $view<'a>;

            #[inline]
            fn of(collection: &Collection) -> Option<&Self> {
                match collection {
                    Collection::$type(value) => Some(value),
                    _ => None,
                }
            }

            #[inline]
            fn of_mut(collection: &mut Collection) -> Option<&mut Self> {
                match collection {
                    Collection::$type(value) => Some(value),
                    _ => None,
                }
            }

            #[inline]
            fn view_at(&self, now: UnixMs) -> $view<'_> {
                let view_at: fn(&$type, UnixMs) -> $view<'_> = $view_at;
                view_at(self, now)
            }

            #[inline]
            fn of_compact(compact: Compact<'_>) -> $view<'_> {
                $view::of_compact(compact)
            }

            #[inline]
            fn copy_in(compact: Compact<'_>, buffer: Vec<u8>) -> $type {
                $type::copy_in(compact, buffer)
            }

            #[inline]
            fn compact(&self) -> Option<Compact<'_>> {
                self.view().compact()
            }

            #[inline]
            fn into_buffer(self) -> Vec<u8> {
                self.into_buffer()
            }

            #[inline]
            fn part_count(&self) -> usize {
                self.len()
            }

            #[inline]
            fn give_back(&mut self) {
                self.give_back();
            }

            fn into_collection(self) -> Collection {
                Collection::$type(self)
            }
        }
    };
}

impl Kind for Stream {
    const TYPE: ValueType = ValueType::Stream;
    const CLASS: EventClass = EventClass::Stream;
    const STAYS_EMPTY: bool = true;

    type View<'a> = &'a Stream;

    #[inline]
    fn of(collection: &Collection) -> Option<&Stream> {
        match collection {
            Collection::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    #[inline]
    fn of_mut(collection: &mut Collection) -> Option<&mut Stream> {
        match collection {
            Collection::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    #[inline]
    fn view_at(&self, _: UnixMs) -> &Stream {
        self
    }

    fn of_compact(_: Compact<'_>) -> &Stream {
        panic!("a stream has no compact form")
    }

    fn copy_in(_: Compact<'_>, _: Vec<u8>) -> Stream {
        panic!("a stream has no compact form")
    }

    #[inline]
    fn compact(&self) -> Option<Compact<'_>> {
        None
    }

    fn into_buffer(self) -> Vec<u8> {
        Vec::new()
    }

    #[inline]
    fn part_count(&self) -> usize {
        self.len()
    }

    fn give_back(&mut self) {}

    fn into_collection(self) -> Collection {
        Collection::Stream(self)
    }
}

kind!(List, ListView, |list, _| list.view());
kind!(Set, SetView, |set, _| set.view());
kind!(Hash, HashView, Hash::view_at);
kind!(SortedSet, SortedSetView, |set, _| set.view());

/// Returns the collection in `entry` as the type `K`, to read, without the parts that have expired
/// by `now`.
#[inline]
pub(crate) fn kind_of<'a, K: Kind>(
    entry: &Entry<'a>,
    store: &'a Store,
    now: UnixMs,
) -> Result<K::View<'a>, WrongType> {
    if entry.header().type_bits() != K::TYPE as u64 {
        return Err(WrongType);
    }
    if let Some(compact) = compact_of(entry) {
        return Ok(K::of_compact(compact));
    }
    let collection = store.get(Handle::of(entry.value()));
    Ok(K::of(collection).expect("the entry's type is that of its collection").view_at(now))
}
