//! What leases are charged with is no less than the memory that they take.

use arena::{Arena, ArenaConfig, HeapSource};
use base::prng::Prng;
use base::{DatabaseIndex, UnixMs};
use keyspace::{Keyspace, LeaseAnswer};
use sys::allocations::{self, Counting};

/// Tells how much memory the test takes.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn leases_take_no_more_than_they_are_charged_with() {
    for (sessions, is_mixed) in [(4, false), (16_000, false), (16_000, true), (2_000, true)] {
        let hash_keys = base::HashKeys::fixed(42);
        let config = ArenaConfig { shard_count: 1, database_count: 1, hash_keys };
        let arena = Arena::new(Box::new(HeapSource::new(1 << 16, 16)), config).expect("fits");
        let keyspace = Keyspace::new(arena);
        let mut random = Prng::new(7);
        let before = keyspace.private_bytes();
        allocations::watch_bytes();
        for number in 0..16_000 {
            let name = number.to_string();
            let key = keyspace.hasher().key(name.as_bytes());
            let ms = if is_mixed { random.below(3_600_000) + 1 } else { 3_000 };
            let mut guard = keyspace.lock(key.shard);
            let mut view = guard.write(DatabaseIndex(0), UnixMs(0));
            let answer = view.lease(&key, number % sessions, ms, 0);
            assert!(matches!(answer, LeaseAnswer::Won(_)), "{answer:?}");
        }
        let (taken, charged) = (allocations::bytes_max(), keyspace.private_bytes() - before);
        assert!(taken <= charged, "{taken} bytes are taken, {charged} charged");
    }
}
