//! What an operation costs while a table grows from empty: how many index entries it moves, and
//! for how long it holds a shard, in CPU time of its thread.
//!
//! `FOREBAY_GROWTH_KEYS` sets the number of keys (by default 300,000). The test prints the time and
//! checks only the count: a bound on time is no test.

use std::time::Duration;

use arena::{Arena, ArenaConfig, HeapSource};
use base::{DatabaseIndex, UnixMs};
use keyspace::{Expiry, Keyspace};

#[test]
fn growth_moves_a_bounded_number_of_entries_and_holds_a_shard_briefly() {
    let keys = match std::env::var("FOREBAY_GROWTH_KEYS") {
        Ok(text) => text.parse::<u64>().expect("FOREBAY_GROWTH_KEYS is a number"),
        Err(_) => 300_000,
    };
    let segments = 8 * (keys * 64 / (1 << 26)) as u32 + 32;
    let config =
        ArenaConfig { shard_count: 64, database_count: 16, hash_keys: base::HashKeys::fixed(42) };
    let arena = Arena::new(Box::new(HeapSource::new(1 << 26, segments)), config).expect("fits");
    let keyspace = Keyspace::new(arena);
    let (mut longest, mut total) = (Duration::ZERO, Duration::ZERO);
    for number in 0..keys {
        let text = format!("{number:016}");
        let key = keyspace.hasher().key(text.as_bytes());
        let mut guard = keyspace.lock(key.shard);
        let start = sys::clock::thread_cpu();
        let mut view = guard.write(DatabaseIndex(0), UnixMs(0));
        view.set(&key, &[b'v'; 16], Expiry::Clear).expect("there is room");
        let held = sys::clock::thread_cpu() - start;
        drop(guard);
        total += held;
        longest = longest.max(held);
    }
    let moved = keyspace.moved_entries_max();
    println!(
        "{keys} keys: at most {moved} entries moved by one operation; \
         a shard was held {longest:?} at the longest, {:?} on average",
        total / keys as u32
    );
    assert!(moved <= 1024, "{moved} entries moved by one operation");
    assert!(moved > 1, "buckets were split, and that was counted");
    assert_eq!(keyspace.counts(DatabaseIndex(0)).keys, keys);
}
