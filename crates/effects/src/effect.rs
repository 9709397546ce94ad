//! One change, in a form that gives the same result wherever and whenever it is applied.

use base::{DatabaseIndex, UnixMs};

use crate::record::split_argument;

/// What happens to a key's time to live when its value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The key no longer expires.
    Clear,
    /// The key keeps the time to live that it had, if any.
    Keep,
    /// The key expires at this time, which may have passed already.
    At(UnixMs),
}

/// How a value is stored, as OBJECT ENCODING says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StoredForm {
    /// A string that is an integer.
    Int = 1,
    /// A short string.
    Embstr = 2,
    /// A string that is long, or was changed in place.
    Raw = 3,
    /// One listpack.
    Listpack = 4,
    /// Several listpacks.
    Quicklist = 5,
    /// Integers in one block.
    Intset = 6,
    /// A table.
    HashTable = 7,
    /// A table with an order.
    Skiplist = 8,
    /// Listpacks of entries in order.
    Stream = 9,
}

impl StoredForm {
    /// Returns the form with this number in a record.
    pub(crate) fn of(number: u8) -> Option<StoredForm> {
        use StoredForm::{
            Embstr, HashTable, Int, Intset, Listpack, Quicklist, Raw, Skiplist, Stream,
        };
        [Int, Embstr, Raw, Listpack, Quicklist, Intset, HashTable, Skiplist, Stream]
            .into_iter()
            .find(|form| *form as u8 == number)
    }
}

/// When a value that is restored was used last, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastUse {
    /// When it is restored, as a value that is new.
    Now,
    /// So many seconds before, where that is tracked.
    Ago {
        /// How many.
        seconds: u64,
    },
    /// With this counter of accesses, where they are counted.
    Counted(u8),
}

/// One change to one database, or to all. Never depends on time, chance or the state before it,
/// beyond what the earlier effects made. Borrows from the request that caused it, or from the bytes
/// of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// The key holds this string now.
    Set {
        key: &'a [u8],
        /// The whole new value.
        value: &'a [u8],
        /// What became of the time to live.
        expiry: Expiry,
    },
    /// The string at the key grew by `suffix`.
    Append {
        key: &'a [u8],
        /// What was added.
        suffix: &'a [u8],
    },
    /// Bytes from `offset` on were overwritten; a gap was filled with zeroes.
    SetRange {
        key: &'a [u8],
        /// Where the bytes start.
        offset: u64,
        /// What was written; never empty.
        bytes: &'a [u8],
    },
    /// The number at the key is stored as text. The value is as it was.
    MakeText { key: &'a [u8] },
    /// The key holds this value now, of any type, whatever it held before.
    Restore {
        /// The key.
        key: &'a [u8],
        /// The value as Redis's DUMP has it, with the footer, which says the version of the format
        /// and has a checksum.
        payload: &'a [u8],
        /// How the value is stored: it need not be as short as its parts would allow.
        form: StoredForm,
        /// When the key expires, if it does; this may have passed already.
        expires_at: Option<UnixMs>,
        /// When the value was used last, by the time of the record.
        last_use: LastUse,
    },
    /// The key is gone.
    Delete { key: &'a [u8] },
    /// The key expires at this time, which may have passed already.
    ExpireAt {
        key: &'a [u8],
        /// When.
        at: UnixMs,
    },
    /// As [`Effect::ExpireAt`], and for so long behind that time the value may be read as a stale
    /// one, until the key is gone.
    ExpireStaleAt {
        key: &'a [u8],
        /// When.
        at: UnixMs,
        /// For how long, in milliseconds.
        grace_ms: u64,
    },
    /// The key no longer expires.
    Persist { key: &'a [u8] },
    /// A command on one key, whose row says that its requests are effects: it asks neither time nor
    /// chance. All changes of collections are of this kind, and applying one runs the command.
    Command {
        /// The name in upper case.
        name: &'a str,
        key: &'a [u8],
        /// What comes behind the key.
        arguments: Arguments<'a>,
    },
    /// What `source` was, `target` is now, its time to live included, whatever `target` was;
    /// `source` is gone.
    Rename {
        /// The key that was.
        source: &'a [u8],
        /// The key that is.
        target: &'a [u8],
    },
    /// The key is in another database now, its time to live included, whatever it was there.
    Move {
        key: &'a [u8],
        /// Where it is.
        database: DatabaseIndex,
    },
    /// What `source` is, `target` in `database` is too now, its time to live included, whatever it
    /// was.
    Copy {
        /// The key that stays.
        source: &'a [u8],
        /// The key that is the same now.
        target: &'a [u8],
        /// The database of `target`.
        database: DatabaseIndex,
    },
    /// All keys of the database are gone.
    FlushDatabase,
    /// All keys of all databases are gone.
    FlushAll,
    /// Two databases changed places.
    SwapDatabases {
        /// One.
        a: DatabaseIndex,
        /// The other.
        b: DatabaseIndex,
    },
}

impl<'a> Effect<'a> {
    /// Returns the key, or the keys, that the effect is about: none where it is about whole
    /// databases.
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (first, second) = match *self {
            Effect::Set { key, .. }
            | Effect::Append { key, .. }
            | Effect::SetRange { key, .. }
            | Effect::MakeText { key }
            | Effect::Restore { key, .. }
            | Effect::Delete { key }
            | Effect::ExpireAt { key, .. }
            | Effect::ExpireStaleAt { key, .. }
            | Effect::Persist { key }
            | Effect::Command { key, .. }
            | Effect::Move { key, .. } => (Some(key), None),
            Effect::Rename { source, target } | Effect::Copy { source, target, .. } => {
                (Some(source), Some(target))
            }
            Effect::FlushDatabase | Effect::FlushAll | Effect::SwapDatabases { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Returns whether the effect is about other databases than the one where it happened.
    pub fn crosses_databases(&self) -> bool {
        match self {
            // A copy within one database counts too: it names its database like any other.
            Effect::Move { .. } | Effect::Copy { .. } => true,
            Effect::FlushAll | Effect::SwapDatabases { .. } => true,
            _ => false,
        }
    }
}

/// The arguments of a command: slices of a request, or the bytes of a record.
#[derive(Clone, Copy, Debug)]
pub enum Arguments<'a> {
    /// As they are in a request.
    Slices(&'a [&'a [u8]]),
    /// As a record has them: checked when it was read.
    Encoded(&'a [u8]),
}

impl<'a> Iterator for Arguments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            Arguments::Slices(slices) => {
                let (first, rest) = slices.split_first()?;
                *slices = rest;
                Some(first)
            }
            Arguments::Encoded(bytes) => {
                let (first, rest) = split_argument(bytes)?;
                *bytes = rest;
                Some(first)
            }
        }
    }
}

impl PartialEq for Arguments<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

impl Eq for Arguments<'_> {}
