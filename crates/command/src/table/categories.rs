//! ACL categories: most follow from a command's group, flags and kind of handler.

/// A set of ACL categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(u32);

/// The names in Redis's order, which is the order of COMMAND INFO.
const NAMES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

impl Categories {
    /// No category.
    pub const NONE: Categories = Categories(0);
    /// Works on keys whatever their type.
    pub const KEYSPACE: Categories = Categories(1 << 0);
    /// Reads keys.
    pub const READ: Categories = Categories(1 << 1);
    /// Writes keys.
    pub const WRITE: Categories = Categories(1 << 2);
    /// Works on sets.
    pub const SET: Categories = Categories(1 << 3);
    /// Works on sorted sets.
    pub const SORTED_SET: Categories = Categories(1 << 4);
    /// Works on lists.
    pub const LIST: Categories = Categories(1 << 5);
    /// Works on hashes.
    pub const HASH: Categories = Categories(1 << 6);
    /// Works on strings.
    pub const STRING: Categories = Categories(1 << 7);
    /// Works on strings as bits.
    pub const BITMAP: Categories = Categories(1 << 8);
    /// Works on HyperLogLogs.
    pub const HYPERLOGLOG: Categories = Categories(1 << 9);
    /// Works on places in sorted sets.
    pub const GEO: Categories = Categories(1 << 10);
    /// Works on streams.
    pub const STREAM: Categories = Categories(1 << 11);
    /// Publish/subscribe.
    pub const PUBSUB: Categories = Categories(1 << 12);
    /// For administrators.
    pub const ADMIN: Categories = Categories(1 << 13);
    /// Takes constant or logarithmic time.
    pub const FAST: Categories = Categories(1 << 14);
    /// The others.
    pub const SLOW: Categories = Categories(1 << 15);
    /// May wait for another session.
    pub const BLOCKING: Categories = Categories(1 << 16);
    /// Can harm a server in use.
    pub const DANGEROUS: Categories = Categories(1 << 17);
    /// Concerns the session.
    pub const CONNECTION: Categories = Categories(1 << 18);
    /// MULTI and what belongs to it.
    pub const TRANSACTION: Categories = Categories(1 << 19);

    /// Returns the categories of both.
    pub const fn with(self, other: Categories) -> Categories {
        Categories(self.0 | other.0)
    }

    /// Returns these categories, and `other` where `condition` holds.
    pub const fn with_if(self, condition: bool, other: Categories) -> Categories {
        if condition { self.with(other) } else { self }
    }

    /// Returns whether every category of `other` is here.
    pub const fn contains(self, other: Categories) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the category called `name`, in any case and without the `@`.
    pub fn named(name: &[u8]) -> Option<Categories> {
        let index = NAMES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Categories(1 << index))
    }

    /// Returns the names without the `@`.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        NAMES
            .into_iter()
            .enumerate()
            .filter(move |(index, _)| self.0 >> index & 1 == 1)
            .map(|n| n.1)
    }
}
