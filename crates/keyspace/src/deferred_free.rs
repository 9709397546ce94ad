//! Large collections that were deleted, and many leases that ended at once: a thread that holds no
//! lock frees them, as that takes long.

use std::sync::Mutex;

use arena::Spill;
use collections::Collection;

use crate::keyspace::Keyspace;
use crate::leases::LeaseTable;
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
    All(#[expect(dead_code, reason = "they are only dropped")] (Store, Spill)),
    Leases(#[expect(dead_code, reason = "they are only dropped")] LeaseTable),
}

impl Shard {
    /// Frees `collection`, or has it freed later, and charges it until then.
    pub fn retire(&mut self, collection: Collection) {
        let Some(collection) = self.leave_collection(collection) else { return };
        let bytes = collection.memory_bytes();
        if bytes >= RETIRED_BYTES_MIN {
            self.account().retire(Retired::One(collection), bytes);
        }
    }

    /// As [`Shard::retire`], of all that a database had in private memory.
    pub fn retire_all(&mut self, (store, spill): (Store, Spill)) {
        let bytes = store.private_bytes() + spill.private_bytes();
        if bytes >= RETIRED_BYTES_MIN {
            self.account().retire(Retired::All((store, spill)), bytes);
        }
    }

    /// As [`Shard::retire`], of leases that have ended.
    pub fn retire_leases(&mut self, leases: LeaseTable) {
        let bytes = leases.bytes();
        if bytes >= RETIRED_BYTES_MIN {
            self.account().retire(Retired::Leases(leases), bytes);
        }
    }
}

impl crate::memory_limit::MemoryAccount {
    fn retire(&self, retired: Retired, bytes: u64) {
        let mut waiting = self.retired.waiting.lock().expect("no holder of the list panics");
        if waiting.len() < RETIRED_COUNT_MAX {
            // Before anybody can take it from the list and discharge it.
            self.recharge_keys(0, bytes);
            waiting.push((retired, bytes));
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
            self.account.recharge_keys(bytes, 0);
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    use arena::{Arena, ArenaConfig, HeapSource};
    use collections::List;

    use super::*;

    /// Far more than all else that is charged, so that a discharge that comes first is noticed.
    const BYTES: u64 = 1 << 30;

    #[test]
    fn what_is_given_up_is_charged_before_it_can_be_freed() {
        let config =
            ArenaConfig { shard_count: 8, database_count: 16, hash_keys: base::HashKeys::fixed(7) };
        let source = HeapSource::new(1 << 16, 16);
        let keyspace = Keyspace::new(Arena::new(Box::new(source), config).unwrap());
        let before = keyspace.private_bytes();
        let is_done = AtomicBool::new(false);
        let give_up = || {
            for _ in 0..100_000 {
                let collection = Collection::List(List::default());
                keyspace.account.retire(Retired::One(collection), BYTES);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Acquire) {
                        keyspace.drop_retired();
                    }
                });
            }
            let given_up = catch_unwind(AssertUnwindSafe(give_up));
            is_done.store(true, Ordering::Release);
            given_up.unwrap();
        });
        keyspace.drop_retired();
        assert_eq!(keyspace.private_bytes(), before);
    }
}
