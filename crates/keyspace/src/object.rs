//! An entry together with its value, of any type.

use std::borrow::Cow;
use std::ops::Deref;

use arena::{Encoding, Entry, ValueType};
use collections::{Collection, Hash, List, Set, SortedSet};
use effects::EventClass;

use crate::store::{Handle, Store};
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
    Collection(&'a Collection),
}

impl<'a> Object<'a> {
    pub(crate) fn new(entry: Entry<'a>, store: &'a Store) -> Object<'a> {
        Object { entry, store }
    }

    /// Returns the value.
    pub fn content(&self) -> Content<'a> {
        match handle_of(&self.entry) {
            None if self.entry.is_adopted() => {
                let mut copy = Vec::new();
                self.entry.value_or_copy(&mut copy);
                Content::String(Cow::Owned(copy))
            }
            None => Content::String(Cow::Borrowed(self.entry.value())),
            Some(handle) => Content::Collection(self.store.get(handle)),
        }
    }

    /// Returns the collection, unless it is a string.
    pub fn collection(&self) -> Option<&'a Collection> {
        handle_of(&self.entry).map(|handle| self.store.get(handle))
    }

    /// Returns the bytes of memory that the key and its value take.
    pub fn memory_bytes(&self) -> u64 {
        let collection = self.collection().map_or(0, Collection::memory_bytes);
        self.entry.memory_bytes() + collection
    }

    /// Returns the name in OBJECT ENCODING.
    pub fn encoding_name(&self) -> &'static str {
        match (self.entry.encoding(), self.collection()) {
            (_, Some(collection)) => collection.encoding().name(),
            (Encoding::Int, _) => "int",
            (Encoding::Embstr, _) => "embstr",
            (Encoding::Raw | Encoding::Handle, _) => "raw",
        }
    }
}

impl<'a> Deref for Object<'a> {
    type Target = Entry<'a>;

    fn deref(&self) -> &Entry<'a> {
        &self.entry
    }
}

/// Returns where the value of `entry` is, unless it is a string.
#[inline]
pub(crate) fn handle_of(entry: &Entry<'_>) -> Option<Handle> {
    match entry.header().type_bits() == ValueType::String as u64 {
        true => None,
        false => Some(Handle::of(entry.value())),
    }
}

/// A type of collection.
pub trait Kind: Sized {
    /// The type's mark in an entry.
    const TYPE: ValueType;
    /// The class of the keyspace events of its changes.
    const CLASS: EventClass;

    /// Returns `collection` as this type.
    fn of(collection: &Collection) -> Option<&Self>;

    /// As [`Kind::of`], to change it.
    fn of_mut(collection: &mut Collection) -> Option<&mut Self>;

    /// Returns it as a collection.
    fn into_collection(self) -> Collection;
}

macro_rules! kind {
    ($type:ident) => {
        impl Kind for $type {
            const TYPE: ValueType = ValueType::$type;
            const CLASS: EventClass = EventClass::$type;

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

            fn into_collection(self) -> Collection {
                Collection::$type(self)
            }
        }
    };
}

kind!(List);
kind!(Set);
kind!(Hash);
kind!(SortedSet);

/// Returns the collection in `entry` as the type `K`.
#[inline]
pub(crate) fn kind_of<'a, K: Kind>(
    entry: &Entry<'_>,
    store: &'a Store,
) -> Result<&'a K, WrongType> {
    if entry.header().type_bits() != K::TYPE as u64 {
        return Err(WrongType);
    }
    let collection = store.get(Handle::of(entry.value()));
    Ok(K::of(collection).expect("the entry's type is that of its collection"))
}
