//! Keys with a time to live.

use base::ShardIndex;

use super::*;
use crate::{Access, Expiry};

#[test]
fn expired_key_is_absent_before_sweep() {
    let fixture = Fixture::new();
    fixture.set_until("k", "v", later(10));
    assert_eq!(fixture.get("k", later(10)).as_deref(), Some("v"), "the moment itself is alive");
    fixture.records();
    assert_eq!(fixture.get("k", later(11)), None);
    let key = fixture.key("k");
    let guard = fixture.keyspace.lock(key.shard);
    assert!(guard.read(DB0, later(11)).peek(&key).is_none());
    assert!(guard.read(DB0, later(11)).inspect(&key).is_some(), "it is still there");
    drop(guard);
    assert_eq!(fixture.keyspace.counts(DB0).keys, 1);
    assert_eq!(fixture.records(), Vec::<String>::new(), "reads never delete");
}

#[test]
fn expired_key_is_removed_behind_the_read_that_met_it() {
    let fixture = Fixture::new();
    fixture.set_until("k", "v", later(10));
    fixture.set("{k}live", "v");
    fixture.records();
    let keys = [fixture.key("{k}live"), fixture.key("k")];
    let mut guard = fixture.keyspace.lock(keys[0].shard);
    assert!(guard.read(DB0, later(11)).entry(&keys[0]).is_some());
    assert!(!guard.has_met_expired());
    assert!(guard.read(DB0, later(11)).peek(&keys[1]).is_none());
    assert!(guard.has_met_expired());
    guard.leave_expired();
    assert!(!guard.has_met_expired());
    assert!(guard.read(DB0, later(11)).inspect(&keys[1]).is_some());
    assert!(guard.write(DB0, later(11)).as_read().entry(&keys[1]).is_none());
    assert!(guard.has_met_expired());
    guard.remove_expired(&keys, DB0, later(11));
    assert!(!guard.has_met_expired() && guard.read(DB0, later(11)).inspect(&keys[1]).is_none());
    drop(guard);
    assert_eq!(
        (fixture.keyspace.counts(DB0).keys, fixture.keyspace.counters().expired_keys),
        (1, 1)
    );
    assert_eq!(fixture.records(), ["DEL k"]);
}

#[test]
fn write_over_an_expired_key_emits_its_deletion_first() {
    let fixture = Fixture::new();
    let write = |change: &dyn Fn(&mut crate::WriteView<'_>, &Key<'_>)| {
        fixture.set_until("k", "v", later(10));
        fixture.records();
        fixture.write("k", later(11), |view, key| change(view, key));
        fixture.records()
    };
    let set = write(&|view, key| view.set(key, b"w", Expiry::Keep).unwrap());
    assert_eq!(set, ["DEL k", "SET k w KEEPTTL"]);
    assert_eq!(fixture.get("k", later(100)).as_deref(), Some("w"), "the old time to live is gone");
    let append = write(&|view, key| assert_eq!(view.append(key, b"w"), Ok(1)));
    assert_eq!(append, ["DEL k", "APPEND k w"]);
    let range = write(&|view, key| assert_eq!(view.set_range(key, 1, b"w"), Ok(2)));
    assert_eq!(range, ["DEL k", "SETRANGE k 1 w"]);
    let expire = write(&|view, key| assert_eq!(view.set_expiry(key, later(50)), Ok(false)));
    assert_eq!(expire, ["DEL k"]);
    let remove = write(&|view, key| assert!(!view.remove(key)));
    assert_eq!(remove, ["DEL k"]);
    let look = write(&|view, key| assert!(view.entry(key).is_none()));
    assert_eq!(look, ["DEL k"]);
    assert_eq!(fixture.keyspace.counters().expired_keys, 6);
}

#[test]
fn sweep_is_bounded_and_comes_round() {
    let fixture = Fixture::new();
    let names: Vec<String> = (0..100).map(|number| format!("{{tag}}{number}")).collect();
    for (index, name) in names.iter().enumerate() {
        fixture.set_until(name, "v", if index % 2 == 0 { later(10) } else { later(1000) });
    }
    fixture.set("{tag}persistent", "v");
    fixture.records();
    let shard = fixture.key("{tag}").shard;
    let (mut expired, mut steps) = (0, 0);
    while expired < 50 {
        let outcome = fixture.keyspace.expire_step(shard, later(11), 7);
        assert!(outcome.examined <= 7);
        expired += outcome.expired;
        steps += 1;
        assert!(steps < 50, "every entry is looked at in turn");
    }
    assert_eq!(fixture.keyspace.counts(DB0).keys, 51);
    assert_eq!(fixture.keyspace.counts(DB0).volatile, 50);
    assert_eq!(fixture.records().len(), 50);
    assert_eq!(fixture.keyspace.counters().expired_keys, 50);
    let outcome = fixture.keyspace.expire_step(shard, later(11), 1000);
    assert_eq!((outcome.examined, outcome.expired, outcome.volatile_left), (50, 0, 50));
}

#[test]
fn sweep_visits_every_database() {
    let fixture = Fixture::new();
    let key = fixture.key("k");
    for database in [DB0, DatabaseIndex(15)] {
        let mut guard = fixture.keyspace.lock(key.shard);
        guard.write(database, NOW).set(&key, b"v", Expiry::At(NOW)).unwrap();
    }
    fixture.records();
    assert_eq!(fixture.keyspace.expire_step(key.shard, later(1), 10).expired, 2);
    assert_eq!(
        fixture.records(),
        ["DEL k", "SELECT DEL k"].map(|text| text.replace("SELECT", "SELECT 15"))
    );
}

#[test]
fn sweep_reaches_a_database_behind_one_that_takes_the_whole_budget() {
    const BUDGET: u64 = 8;
    for live_in_first in [BUDGET - 1, BUDGET, 10 * BUDGET] {
        let fixture = Fixture::new();
        let shard = fixture.key("{tag}").shard;
        for number in 0..live_in_first {
            fixture.set_until(&format!("{{tag}}{number}"), "v", later(1000));
        }
        for number in 0..4 * BUDGET {
            let name = format!("{{tag}}{number}");
            let mut guard = fixture.keyspace.lock(shard);
            guard.write(DB1, NOW).set(&fixture.key(&name), b"v", Expiry::At(NOW)).unwrap();
        }
        let steps = (0..16).map(|_| fixture.keyspace.expire_step(shard, later(1), BUDGET));
        let expired: u64 = steps
            .map(|outcome| {
                assert!(outcome.examined <= BUDGET);
                assert!(outcome.volatile_left >= live_in_first, "all databases are counted");
                outcome.expired
            })
            .sum();
        assert_eq!(expired, 4 * BUDGET, "beside {live_in_first} in database 0");
    }
}

#[test]
fn past_expiry_stays_stored_until_time_is_asked() {
    let fixture = Fixture::new();
    fixture.write("k", NOW, |view, key| view.set(key, b"v", Expiry::At(UnixMs(5)))).unwrap();
    assert_eq!(fixture.get("k", NOW), None);
    assert_eq!(fixture.get("k", UnixMs(5)).as_deref(), Some("v"));
    assert_eq!(Access::free(&fixture.keyspace).key_count(DB0), 1);
}

#[test]
fn sweep_learns_how_long_keys_live_on_average() {
    let fixture = Fixture::new();
    for (index, seconds) in [(0, 10), (1, 20), (2, 60), (3, 70)] {
        let name = format!("k{index}");
        let key = fixture.key(&name);
        let mut guard = fixture.keyspace.lock(key.shard);
        guard.write(DB0, NOW).set(&key, b"v", Expiry::At(later(seconds))).unwrap();
    }
    assert_eq!(fixture.keyspace.ttl_mean_ms(DB0), 0);
    let sweep = |now| {
        for shard in fixture.keyspace.shard_indexes() {
            fixture.keyspace.expire_step(shard, now, 100);
        }
    };
    // Keys of shards that no step has met yet have no part in it.
    let first = fixture.key("k0").shard;
    fixture.keyspace.expire_step(first, NOW, 100);
    let met = fixture.keyspace.ttl_mean_ms(DB0);
    assert!(met >= (later(10).0 - NOW.0) as u64, "{met}");
    sweep(NOW);
    assert_eq!(fixture.keyspace.ttl_mean_ms(DB0), (later(40).0 - NOW.0) as u64);
    // Each further step moves it by a 50th.
    sweep(later(5));
    let moved = (later(40).0 - NOW.0) as u64 - fixture.keyspace.ttl_mean_ms(DB0);
    let step = (later(5).0 - NOW.0) as u64 / 50;
    assert!(moved.abs_diff(step) <= 1, "{moved}, {step}");
    assert_eq!(fixture.keyspace.ttl_mean_ms(DatabaseIndex(1)), 0);
}

#[test]
fn stale_values_have_no_part_in_the_average_time_to_live() {
    let fixture = Fixture::with_shards(arena::HeapSource::new(1 << 18, 64), 1);
    for (name, seconds) in [("stale", 10), ("fresh", 60)] {
        fixture.set(name, "v");
        let made = fixture
            .write(name, NOW, |view, key| view.set_stale_expiry(key, later(seconds), 1_000_000));
        assert!(made.unwrap());
    }
    let now = later(20);
    fixture.keyspace.expire_step(ShardIndex(0), now, 100);
    assert_eq!(fixture.keyspace.key_count(DB0), 2, "the value may be read");
    assert_eq!(fixture.keyspace.ttl_mean_ms(DB0), (later(60).0 - now.0) as u64);
}
