//! Operations on all keys: walks, random choices, flushes, swaps.

use std::collections::BTreeSet;

use base::prng::Prng;

use super::*;
use crate::{Access, Expiry, ScanQuery};

fn filled(count: usize) -> Fixture {
    let fixture = Fixture::new();
    (0..count).for_each(|number| fixture.set(&format!("key:{number}"), "v"));
    fixture
}

/// About `count` keys of any name.
fn all(count: u64) -> ScanQuery<'static> {
    ScanQuery { count, wants: &|_| true, counts_lookups: false }
}

fn scan_all(fixture: &Fixture, count: u64) -> (Vec<Vec<u8>>, usize) {
    let mut access = Access::free(&fixture.keyspace);
    let (mut cursor, mut calls, mut keys) = (0, 0, Vec::new());
    loop {
        cursor = access
            .scan(DB0, cursor, &all(count), NOW, &mut |entry| keys.push(entry.key().to_vec()));
        calls += 1;
        if cursor == 0 {
            return (keys, calls);
        }
    }
}

#[test]
fn scan_meets_every_key_once_where_nothing_changes() {
    for size in [0, 1, 10, 1000] {
        let fixture = filled(size);
        for count in [1, 10, 10_000] {
            let (keys, calls) = scan_all(&fixture, count);
            assert_eq!(keys.len(), size);
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), size);
            assert!(calls <= size / count as usize + size + 1, "{calls} calls for {size}");
        }
    }
}

#[test]
fn scan_misses_no_key_while_the_table_grows() {
    let fixture = filled(500);
    let mut access = Access::free(&fixture.keyspace);
    let (mut cursor, mut seen, mut added) = (0, BTreeSet::new(), 0);
    loop {
        cursor = access.scan(DB0, cursor, &all(5), NOW, &mut |entry| {
            seen.insert(entry.key().to_vec());
        });
        (0..20).for_each(|number| fixture.set(&format!("new:{}", added + number), "v"));
        added += 20;
        if cursor == 0 {
            break;
        }
    }
    for number in 0..500 {
        assert!(seen.contains(format!("key:{number}").as_bytes()), "key:{number}");
    }
}

#[test]
fn scan_takes_any_cursor() {
    let fixture = filled(100);
    let mut access = Access::free(&fixture.keyspace);
    for cursor in [u64::MAX, 1 << 63, 12345, 7] {
        access.scan(DB0, cursor, &all(10), NOW, &mut |_| {});
    }
}

#[test]
fn scan_and_random_key_skip_expired_keys_and_remove_them_unless_told_not_to() {
    for removes_expired in [false, true] {
        let fixture = filled(3);
        let free = || Access::free(&fixture.keyspace).removing_expired(removes_expired);
        let set_old = || {
            (0..20).for_each(|number| fixture.set_until(&format!("old:{number}"), "v", later(1)));
        };
        let left = if removes_expired { 3 } else { 23 };
        set_old();
        let mut keys = Vec::new();
        free().scan(DB0, 0, &all(1000), later(2), &mut |entry| keys.push(entry.key().to_vec()));
        assert_eq!((keys.len(), fixture.keyspace.counts(DB0).keys), (3, left));
        set_old();
        let mut random = Prng::new(1);
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            seen.extend(free().random_key(DB0, later(2), &mut random, <[u8]>::to_vec));
        }
        assert_eq!((seen.len(), fixture.keyspace.counts(DB0).keys), (3, left));
        assert_eq!(free().random_key(DB1, later(2), &mut random, <[u8]>::to_vec), None);
        let only = ScanQuery { wants: &|key| key.ends_with(b"7"), ..all(1000) };
        set_old();
        free().scan(DB0, 0, &only, later(2), &mut |_| panic!("none is wanted that is there"));
        assert_eq!(fixture.keyspace.counts(DB0).keys, if removes_expired { 21 } else { 23 });
    }
}

#[test]
fn random_key_finds_the_only_key_among_any_number_of_expired_ones() {
    let fixture = filled(1);
    (0..1000).for_each(|number| fixture.set_until(&format!("old:{number}"), "v", later(1)));
    let mut access = Access::free(&fixture.keyspace);
    let found = access.random_key(DB0, later(2), &mut Prng::new(1), <[u8]>::to_vec);
    assert_eq!(found.as_deref(), Some(b"key:0".as_slice()));
}

#[test]
fn random_key_takes_each_shard_as_often_as_it_is_full_while_keys_are_added() {
    let fixture = filled(40);
    let mut access = Access::free(&fixture.keyspace);
    let mut random = Prng::new(7);
    assert!(access.random_key(DB0, NOW, &mut random, |_| ()).is_some());
    // One shard gets a third of all keys, far above the others.
    for number in 0..1000 {
        fixture.set(&format!("key:{number}"), "v");
        fixture.set(&format!("{{one}}:{}", number / 2), "v");
    }
    let mut drawn = vec![0_f64; fixture.keyspace.shard_count()];
    const DRAWS: u32 = 60_000;
    for _ in 0..DRAWS {
        let shard = access
            .random_key(DB0, NOW, &mut random, |key| fixture.keyspace.hasher().key(key).shard);
        drawn[shard.unwrap().position()] += 1.0;
    }
    let total = access.key_count(DB0) as f64;
    for shard in fixture.keyspace.shard_indexes() {
        let keys = fixture.keyspace.shard_counts(shard, DB0).keys as f64;
        let expected = keys / total * f64::from(DRAWS);
        let deviation = (drawn[shard.position()] - expected).abs();
        assert!(deviation <= 5.0 * expected.sqrt() + 1.0, "{shard:?}: {expected}, {drawn:?}");
    }
}

#[test]
fn flush_and_swap_concern_the_right_databases() {
    let fixture = filled(50);
    let key = fixture.key("only");
    fixture.keyspace.lock(key.shard).write(DB1, NOW).set(&key, b"v", Expiry::At(later(5))).unwrap();
    fixture.records();
    let mut access = Access::free(&fixture.keyspace);
    access.swap_databases(DB0, DB1, NOW).unwrap();
    assert_eq!((access.key_count(DB0), access.key_count(DB1)), (1, 50));
    assert_eq!(fixture.keyspace.counts(DB0).volatile, 1);
    assert_eq!(fixture.get("only", NOW).as_deref(), Some("v"));
    access.swap_databases(DB1, DB1, NOW).unwrap();
    access.flush_database(DB1, NOW);
    assert_eq!((access.key_count(DB0), access.key_count(DB1)), (1, 0));
    access.flush_all(NOW);
    assert_eq!(access.key_count(DB0), 0);
    assert_eq!(fixture.records(), ["SWAPDB 0 1", "SELECT 1 FLUSHDB", "FLUSHALL"]);
    fixture.set("only", "again");
    assert_eq!(fixture.get("only", NOW).as_deref(), Some("again"));
}

#[test]
fn digest_depends_on_content_alone() {
    let [one, other] = [filled(100), Fixture::new()];
    (0..100).rev().for_each(|number| other.set(&format!("key:{number}"), "v"));
    let digest = |fixture: &Fixture| Access::free(&fixture.keyspace).digest();
    assert_eq!(digest(&one), digest(&other));
    other.set("key:7", "w");
    assert_ne!(digest(&one), digest(&other), "a value");
    other.set("key:7", "v");
    assert_eq!(digest(&one), digest(&other));
    other.set_until("key:7", "v", later(1));
    assert_ne!(digest(&one), digest(&other), "a time to live");
    other.write("key:7", NOW, |view, key| view.persist(key)).unwrap();
    assert_eq!(digest(&one), digest(&other));
    Access::free(&other.keyspace).swap_databases(DB0, DB1, NOW).unwrap();
    assert_ne!(digest(&one), digest(&other), "a database");
}
