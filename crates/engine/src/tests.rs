//! What the engine promises, on an arena over the heap and a host that does nothing.

mod replay;

use std::sync::{Arc, Mutex};

use arena::{Arena, ArenaConfig, HeapSource};
use base::{Lsn, UnixMs};
use keyspace::{Access, DatasetDigest, EffectSink, Keyspace, Record};

use crate::Applier;

const NOW: UnixMs = UnixMs(1_700_000_000_000);

fn keyspace(shard_count: u32) -> Keyspace {
    let source = Box::new(HeapSource::new(1 << 16, 1024));
    let config = ArenaConfig { shard_count, database_count: 16, hash_seed: shard_count.into() };
    Keyspace::new(Arena::new(source, config).unwrap())
}

fn digest(keyspace: &Keyspace) -> DatasetDigest {
    Access::free(keyspace).digest()
}

/// A sink that keeps every record by its LSN.
#[derive(Default)]
struct Recorded {
    records: Mutex<Vec<Vec<u8>>>,
}

impl Recorded {
    fn listening_to(keyspace: &Keyspace) -> Arc<Recorded> {
        let sink = Arc::new(Recorded::default());
        keyspace.set_sink(Some(sink.clone()));
        sink
    }

    /// Applies all records in the order of their LSNs to an empty keyspace of another shape.
    fn replayed(&self) -> Keyspace {
        let copy = keyspace(8);
        let mut applier = Applier::new();
        for record in &*self.records.lock().unwrap() {
            applier.apply(&copy, record).unwrap();
        }
        copy
    }
}

impl EffectSink for Recorded {
    fn append(&self, record: &Record<'_>) -> Lsn {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let mut records = self.records.lock().unwrap();
        records.push(bytes);
        Lsn(records.len() as u64)
    }
}
