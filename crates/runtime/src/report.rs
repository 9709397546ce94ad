//! What an instance tells of its memory and its keys, in a server and embedded alike.

use base::DatabaseIndex;
use command::MemoryReport;
use keyspace::DatabaseCounts;

use crate::runtime::Runtime;

impl Runtime {
    /// Returns where the instance's memory goes, and notes it for the peak. Of the process it knows
    /// nothing: what is resident is what the arena has touched, and there is no client.
    pub fn memory_report(&self) -> MemoryReport {
        let usage = self.keyspace().arena().usage();
        let used = self.keyspace().used_memory();
        let databases: Vec<(usize, u64, u64)> = self
            .filled_databases()
            .map(|(database, counts)| (database.position(), counts.keys, counts.volatile))
            .collect();
        MemoryReport {
            used,
            used_max: self.note_memory(used),
            startup: self.startup_bytes(),
            dataset: usage.slab_bytes + usage.extent_bytes,
            clients: self.client_bytes(),
            index: usage.index_bytes,
            allocated: usage.used_bytes(),
            active: usage.touched_bytes,
            resident: usage.touched_bytes,
            key_count: databases.iter().map(|(_, keys, _)| keys).sum(),
            databases,
            client_count: 0,
        }
    }

    /// Gives memory that nothing uses back to where it came from, as far as possible.
    pub fn purge_memory(&self) {
        let arena = self.keyspace().arena();
        arena.reclaim();
        arena.give_back(u64::MAX);
    }

    /// Returns name and value of the fields of INFO's section on keys, one for each database that
    /// has any.
    pub fn database_fields(&self) -> impl Iterator<Item = (String, String)> {
        self.filled_databases().map(|(database, counts)| {
            let DatabaseCounts { keys, volatile, timed } = counts;
            let mean = self.keyspace().ttl_mean_ms(database);
            let value = format!("keys={keys},expires={volatile},avg_ttl={mean},subexpiry={timed}");
            (format!("db{}", database.0), value)
        })
    }

    fn filled_databases(&self) -> impl Iterator<Item = (DatabaseIndex, DatabaseCounts)> {
        let keyspace = self.keyspace();
        let counted = keyspace.databases().map(|database| (database, keyspace.counts(database)));
        counted.filter(|(_, counts)| counts.keys > 0)
    }
}
