//! The keyspace's promises, on an arena over the heap.

mod access_reports;
mod accounting;
mod adaptive;
mod atomicity;
mod compact;
mod costs;
mod expiry;
mod held_blocks;
mod parts;
mod policies;
mod relocation;
mod snapshots;
mod strings;
mod walks;
mod watching;

use std::sync::Arc;

use arena::{Arena, ArenaConfig, HeapSource};
use base::{DatabaseIndex, Key, UnixMs};
use effects::{Cause, Recording};

use crate::Keyspace;

const DB0: DatabaseIndex = DatabaseIndex(0);
const DB1: DatabaseIndex = DatabaseIndex(1);
const NOW: UnixMs = UnixMs(1_700_000_000_000);

fn later(ms: i64) -> UnixMs {
    UnixMs(NOW.0 + ms)
}

/// A keyspace, and all records that it wrote.
struct Fixture {
    keyspace: Keyspace,
    sink: Arc<Recording>,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with_segments(1 << 16, 256)
    }

    fn with_segments(segment_bytes: u64, segment_count: u32) -> Fixture {
        Fixture::over(HeapSource::new(segment_bytes, segment_count))
    }

    fn over(source: HeapSource) -> Fixture {
        Fixture::with_shards(source, 8)
    }

    fn with_shards(source: HeapSource, shard_count: u32) -> Fixture {
        let hash_keys = base::HashKeys::fixed(7);
        let config = ArenaConfig { shard_count, database_count: 16, hash_keys };
        let keyspace = Keyspace::new(Arena::new(Box::new(source), config).unwrap());
        let sink = Arc::new(Recording::default());
        keyspace.set_sink(Some(sink.clone()));
        Fixture { keyspace, sink }
    }

    fn key<'a>(&self, name: &'a str) -> Key<'a> {
        self.keyspace.hasher().key(name.as_bytes())
    }

    /// Runs `change` on database 0 at `now`, with `name`'s shard.
    fn write<R>(
        &self,
        name: &str,
        now: UnixMs,
        change: impl FnOnce(&mut crate::WriteView<'_>, &Key<'_>) -> R,
    ) -> R {
        let key = self.key(name);
        let mut guard = self.keyspace.lock(key.shard);
        change(&mut guard.write(DB0, now), &key)
    }

    fn set(&self, name: &str, value: &str) {
        self.write(name, NOW, |view, key| view.set(key, value.as_bytes(), crate::Expiry::Clear))
            .unwrap();
    }

    fn set_until(&self, name: &str, value: &str, at: UnixMs) {
        self.write(name, NOW, |view, key| view.set(key, value.as_bytes(), crate::Expiry::At(at)))
            .unwrap();
    }

    fn get(&self, name: &str, now: UnixMs) -> Option<String> {
        let key = self.key(name);
        let guard = self.keyspace.lock(key.shard);
        let bytes = guard.read(DB0, now).string(&key).unwrap()?;
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Returns the records since the last call, each as the words of its RESP commands.
    fn records(&self) -> Vec<String> {
        self.sink.take_commands()
    }
}
