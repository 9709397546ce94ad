//! Newtypes for the numbers that could be confused with each other.

/// The most databases that a server can have; a session's database index is below it.
pub const DATABASE_COUNT_MAX: usize = 16;

/// A log sequence number: the position of an effect in the one order of all writes; 0 is "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// The index of a database, `0..DATABASE_COUNT_MAX`, as SELECT takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseIndex(pub u8);

impl DatabaseIndex {
    /// Returns the index as an array position.
    pub fn position(self) -> usize {
        usize::from(self.0)
    }
}

/// The index of a shard, `0..shard_count`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardIndex(pub u16);

impl ShardIndex {
    /// Returns the index as an array position.
    pub fn position(self) -> usize {
        usize::from(self.0)
    }
}

/// A wall-clock time in milliseconds since the Unix epoch; the caller reads the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(pub i64);
