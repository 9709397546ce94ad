//! Guards and records.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base::ShardIndex;
use base::prng::Prng;

use super::*;
use crate::{Access, Expiry, ShardSet};

#[test]
fn effects_of_an_atomic_guard_are_one_record() {
    let fixture = Fixture::new();
    let keys = [fixture.key("a"), fixture.key("b"), fixture.key("c")];
    let mut guard = fixture.keyspace.lock_keys(&keys);
    guard.begin_atomic();
    for key in &keys {
        guard.write(DB0, NOW).set(key, b"v", Expiry::Clear).unwrap();
    }
    guard.write(DB1, NOW).set(&keys[0], b"w", Expiry::Clear).unwrap();
    guard.write(DB0, NOW).remove(&keys[1]);
    assert_eq!(fixture.records(), Vec::<String>::new(), "nothing before the end");
    assert_eq!(guard.finish(), fixture.sink.end());
    assert_eq!(fixture.records(), ["SET a v SET b v SET c v SELECT 1 SET a w SELECT 0 DEL b"]);
}

#[test]
fn dropped_atomic_guard_completes_its_record() {
    let fixture = Fixture::new();
    let key = fixture.key("a");
    let mut guard = fixture.keyspace.lock(key.shard);
    guard.begin_atomic();
    guard.write(DB0, NOW).set(&key, b"v", Expiry::Clear).unwrap();
    drop(guard);
    assert_eq!(fixture.records(), ["SET a v"]);
}

#[test]
fn atomic_guard_without_change_has_no_record() {
    let fixture = Fixture::new();
    let mut guard = fixture.keyspace.lock_all();
    guard.begin_atomic();
    assert_eq!(guard.finish(), fixture.sink.end());
    assert_eq!(fixture.records(), Vec::<String>::new());
}

#[test]
fn panic_drops_the_record_and_closes_the_shard() {
    let fixture = Fixture::new();
    fixture.set("a", "v");
    fixture.records();
    let key = fixture.key("a");
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut guard = fixture.keyspace.lock(key.shard);
        guard.begin_atomic();
        guard.write(DB0, NOW).set(&key, b"half", Expiry::Clear).unwrap();
        panic!("in the middle");
    }));
    assert!(result.is_err());
    assert_eq!(fixture.records(), Vec::<String>::new());
    let again = catch_unwind(AssertUnwindSafe(|| drop(fixture.keyspace.lock(key.shard))));
    assert!(again.is_err(), "nobody sees half of a change");
}

#[test]
fn guard_of_many_shards_locks_them_in_ascending_order() {
    let fixture = Fixture::new();
    let order = |shards: &[u16]| {
        let mut set = ShardSet::new();
        shards.iter().for_each(|&shard| set.insert(ShardIndex(shard)));
        fixture.keyspace.lock_set(&set).lock_order()
    };
    assert_eq!(order(&[7, 0, 3, 5]), [0, 3, 5, 7].map(ShardIndex));
    assert_eq!(order(&[6, 5]), [5, 6].map(ShardIndex));
}

#[test]
fn overlapping_guards_of_many_threads_never_wait_for_each_other() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..64).map(|number| format!("key:{number}")).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (fixture, names) = (&fixture, &names);
            scope.spawn(move || {
                let mut random = Prng::new(seed);
                for _ in 0..2000 {
                    let count = 1 + random.below(6) as usize;
                    let keys: Vec<Key<'_>> = (0..count)
                        .map(|_| fixture.key(&names[random.below(64) as usize]))
                        .collect();
                    let mut guard = fixture.keyspace.lock_keys(&keys);
                    for key in &keys {
                        guard.write(DB0, NOW).set(key, b"v", Expiry::Clear).unwrap();
                    }
                    drop(guard);
                    if random.one_in(100) {
                        Access::free(&fixture.keyspace).flush_all(NOW);
                    }
                }
            });
        }
    });
}

#[test]
#[cfg(debug_assertions)]
fn second_guard_of_a_thread_is_refused() {
    let fixture = Fixture::new();
    let guard = fixture.keyspace.lock(ShardIndex(0));
    let second = catch_unwind(AssertUnwindSafe(|| drop(fixture.keyspace.lock(ShardIndex(1)))));
    assert!(second.is_err());
    drop(guard);
}

#[test]
fn sink_listens_from_one_moment_on() {
    let fixture = Fixture::new();
    fixture.keyspace.set_sink(None);
    fixture.set("a", "v");
    assert_eq!(fixture.records(), Vec::<String>::new());
    fixture.keyspace.set_sink(Some(fixture.sink.clone()));
    fixture.set("a", "w");
    assert_eq!(fixture.records(), ["SET a w"]);
}

#[test]
fn each_record_advances_the_lsn_of_its_shards() {
    let fixture = Fixture::new();
    fixture.set("a", "v");
    let (key, first) = (fixture.key("a"), fixture.sink.end());
    let mut guard = fixture.keyspace.lock(key.shard);
    guard.write(DB0, NOW).set(&key, b"w", Expiry::Clear).unwrap();
    let last = guard.end_record();
    assert!(last > first && last == fixture.sink.end());
    assert_eq!(guard.shard_mut(key.shard).last_write_lsn, fixture.sink.end());
}
