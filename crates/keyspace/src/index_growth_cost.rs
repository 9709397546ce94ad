//! The most that the growth of the index has cost.

use crate::keyspace::Keyspace;

impl Keyspace {
    /// Returns the most index entries that one operation has moved, over all tables that exist.
    /// Locks one shard after the other.
    pub fn moved_entries_max(&self) -> u64 {
        let of_shard = |shard| {
            let guard = self.lock(shard);
            let tables = guard.shards().shard(shard).databases();
            tables.map(|(_, part)| part.table.moved_entries_max()).max().unwrap_or(0)
        };
        self.shard_indexes().map(of_shard).max().unwrap_or(0)
    }
}
