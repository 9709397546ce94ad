//! What values cost to have back: kept with them, and minded by the adaptive policy.

use base::ShardIndex;
use base::prng::Prng;

use super::*;
use crate::eviction::Victims;
use crate::{Cost, EvictionPolicy, Expiry, SweepContext};

fn set(fixture: &Fixture, name: &str, value: &[u8], expiry: Expiry, cost: u64) {
    let cost = Cost::of(cost).unwrap();
    fixture.write(name, NOW, |view, key| view.set_costed(key, value, expiry, cost)).unwrap();
}

fn cost(fixture: &Fixture, database: DatabaseIndex, name: &str) -> Option<u64> {
    let key = fixture.key(name);
    let guard = fixture.keyspace.lock(key.shard);
    guard.read(database, NOW).peek(&key).map(|entry| entry.cost().number())
}

#[test]
fn a_cost_stays_with_its_value_and_goes_with_it() {
    let fixture = Fixture::new();
    for length in [1, 40, 256, 1023, 1024, 4000, 5000] {
        let value = vec![b'v'; length];
        let has = |cost_expected, after: &str| {
            assert_eq!(cost(&fixture, DB0, "k"), Some(cost_expected), "{after}, {length} bytes");
        };
        set(&fixture, "k", &value, Expiry::Clear, 500);
        has(496, "the five highest bits");
        set(&fixture, "k", &value, Expiry::At(later(9)), 10);
        has(10, "SET");
        fixture.write("k", NOW, |view, key| view.persist(key)).unwrap();
        fixture.write("k", NOW, |view, key| view.set_expiry(key, later(99))).unwrap();
        has(10, "PERSIST and EXPIRE");
        fixture.write("k", NOW, |view, key| view.set_range(key, 0, b"w")).unwrap();
        fixture.write("k", NOW, |view, key| view.append(key, b"12345678")).unwrap();
        has(10, "APPEND");
        fixture.write("k", NOW, |view, key| view.set(key, &value, Expiry::Keep)).unwrap();
        fixture.write("k", NOW, |view, key| view.set_persisting(key, &value, true)).unwrap();
        has(10, "KEEPTTL");
        fixture.write("k", NOW, |view, key| view.copy_to(key, key, DB1)).unwrap();
        assert_eq!(cost(&fixture, DB1, "k"), Some(10), "COPY");
        set(&fixture, "k", &value, Expiry::Keep, 1);
        has(1, "COST 1");
        set(&fixture, "k", &value, Expiry::Keep, 7);
        fixture.set("k", "v");
        has(1, "SET");
    }
}

#[test]
fn an_effect_names_the_cost() {
    let fixture = Fixture::new();
    fixture.records();
    set(&fixture, "k", b"v", Expiry::At(UnixMs(5_000_000_000_000)), 65_535);
    set(&fixture, "k", b"v", Expiry::Keep, 2);
    set(&fixture, "k", b"v", Expiry::Clear, 1);
    let expected =
        ["SET k v PXAT 5000000000000 COST 63488", "SET k v KEEPTTL COST 2", "SET k v COST 1"];
    assert_eq!(fixture.records(), expected);
}

#[test]
fn of_keys_used_alike_those_stay_that_cost_more() {
    let fixture = Fixture::with_shards(arena::HeapSource::new(1 << 18, 1024), 1);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ADAPTIVE);
    const KEYS: usize = 1000;
    let name = |index: usize| format!("key:{index}");
    // They differ in nothing but that each other one costs ten times as much.
    for index in 0..KEYS {
        set(&fixture, &name(index), &[b'v'; 100], Expiry::Clear, [1, 10][index % 2]);
    }
    let mut random = Prng::new(3);
    while fixture.keyspace.counts(DB0).keys > KEYS as u64 * 6 / 10 {
        let context = &mut SweepContext::new(NOW, &mut random);
        fixture.keyspace.evict_from(ShardIndex(0), 1, Victims::Any, context);
    }
    let kept = |odd: usize| {
        let names = (0..KEYS).filter(|index| index % 2 == odd).map(name);
        names.filter(|name| cost(&fixture, DB0, name).is_some()).count()
    };
    let (cheap, dear) = (kept(0), kept(1));
    // A few cheap ones are new, or were not drawn.
    assert!(dear >= KEYS / 2 - 10, "{dear} dear and {cheap} cheap keys are left");
}

#[test]
fn keys_that_leave_the_window_are_weighed_by_their_costs() {
    let fixture = Fixture::with_shards(arena::HeapSource::new(1 << 18, 1024), 1);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ADAPTIVE);
    const KEYS: usize = 3000;
    let mut random = Prng::new(3);
    let mut evict = |goal| {
        let context = &mut SweepContext::new(NOW, &mut random);
        fixture.keyspace.evict_from(ShardIndex(0), goal, Victims::Any, context);
    };
    let set_used = |name: &str| {
        set(&fixture, name, &[b'v'; 100], Expiry::Clear, 1);
        (0..3).for_each(|_| assert!(fixture.get(name, NOW).is_some()));
    };
    (0..KEYS).for_each(|index| set_used(&format!("used:{index}")));
    // Without their costs those would be the worst of all, and all that leave at a time.
    let name = |cost: u64, index: usize| format!("cost:{cost}:{index}");
    for cost in [1000, 2] {
        for round in 0..10 {
            let names = (round * 40..(round + 1) * 40).map(|index| name(cost, index));
            names.for_each(|name| set(&fixture, &name, &[b'v'; 100], Expiry::Clear, cost));
            evict(40 * 120);
        }
    }
    let kept = |key_cost: u64| {
        let names = (0..400).map(|index| name(key_cost, index));
        names.filter(|name| cost(&fixture, DB0, name).is_some()).count()
    };
    let (dear, cheap) = (kept(1000), kept(2));
    assert_eq!(dear, 400, "they are worth more than all others");
    assert!(cheap < 150, "{cheap} of 400 are left that are worth less than all others");
}
