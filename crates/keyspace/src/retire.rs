//! Large collections that are gone: freed by a thread that holds no lock, as that takes long.

use std::sync::Mutex;

use collections::Collection;

use crate::keyspace::Keyspace;
use crate::shard::Shard;
use crate::store::Store;

/// Smaller collections are freed at once.
const RETIRED_BYTES_MIN: u64 = 16 * 1024;
/// How many wait to be freed; beyond that they are freed at once.
const RETIRED_COUNT_MAX: usize = 1024;

/// What waits to be freed, with its bytes, which stay charged until then.
#[derive(Default)]
pub(crate) struct RetiredList {
    waiting: Mutex<Vec<(Retired, u64)>>,
}

pub(crate) enum Retired {
    One(#[expect(dead_code, reason = "it is only dropped")] Collection),
    All(#[expect(dead_code, reason = "they are only dropped")] Store),
}

impl Shard {
    /// Frees `collection`, or has it freed later, and charges it until then.
    pub fn retire(&mut self, collection: Collection) {
        let bytes = collection.memory_bytes();
        if bytes >= RETIRED_BYTES_MIN {
            self.account().retire(Retired::One(collection), bytes);
        }
    }

    /// As [`Shard::retire`], of all collections of a database.
    pub fn retire_all(&mut self, store: Store) {
        let bytes = store.private_bytes();
        if bytes >= RETIRED_BYTES_MIN {
            self.account().retire(Retired::All(store), bytes);
        }
    }
}

impl crate::room::MemoryAccount {
    fn retire(&self, retired: Retired, bytes: u64) {
        let mut waiting = self.retired.waiting.lock().expect("no holder of the list panics");
        if waiting.len() < RETIRED_COUNT_MAX {
            waiting.push((retired, bytes));
            drop(waiting);
            self.charge(bytes);
        }
    }
}

impl Keyspace {
    /// Frees what large deleted collections took; returns whether there was any. The caller holds
    /// no guard.
    pub fn drop_retired(&self) -> bool {
        let list = &self.account.retired.waiting;
        let waiting = std::mem::take(&mut *list.lock().expect("no holder of the list panics"));
        let any = !waiting.is_empty();
        for (retired, bytes) in waiting {
            drop(retired);
            self.discharge(bytes);
        }
        any
    }
}
