//! The keys that stay while room is made for the command that works on them.
//!
//! A command that lacks room changes nothing, lets go of its locks, and is run again from the
//! start. What it works on has to be there then: a list that went meanwhile would come back with
//! the new elements alone.

use base::{DatabaseIndex, Key};

/// Keys of one database that are not evicted, known by their hashes: of those few keys that share
/// one all stay.
#[derive(Clone, Copy, Debug)]
pub struct Spared<'k> {
    database: DatabaseIndex,
    /// In the order of their hashes; each once.
    keys: &'k [Key<'k>],
}

impl<'k> Spared<'k> {
    /// No key.
    pub const NONE: Spared<'static> = Spared { database: DatabaseIndex(0), keys: &[] };

    /// Returns that `keys` of `database` stay; sorts them, and leaves each once.
    pub fn of<'b: 'k>(database: DatabaseIndex, keys: &'k mut Vec<Key<'b>>) -> Spared<'k> {
        keys.sort_unstable_by_key(|key| (key.hash, key.bytes));
        keys.dedup_by_key(|key| (key.hash, key.bytes));
        Spared { database, keys }
    }

    /// Returns whether no key stays.
    pub(crate) fn is_empty(self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the keys that stay, and their database.
    pub(crate) fn keys(self) -> (DatabaseIndex, &'k [Key<'k>]) {
        (self.database, self.keys)
    }

    /// Returns whether a key of `hash` in `database` stays.
    pub(crate) fn includes(self, database: DatabaseIndex, hash: u64) -> bool {
        database == self.database && self.keys.binary_search_by_key(&hash, |key| key.hash).is_ok()
    }
}
