//! Collections: their memory is counted, freed once, and bounded.

use base::prng::Prng;
use collections::{Direction, End, List, ListView};

use super::*;
use crate::{
    Access, EvictionPolicy, Expiry, NeedRoom, Refusal, Region, SweepContext, WhenAbsent, WriteView,
};

fn push(fixture: &Fixture, name: &str, element: &[u8]) -> Result<usize, Refusal> {
    let element = std::iter::once(element);
    fixture.write(name, NOW, |view, key| view.push(key, End::Tail, element, WhenAbsent::Create))
}

/// Compares what is charged beyond `base` with what the collections that keys lead to take.
fn assert_exact(fixture: &Fixture) {
    let mut held = 0;
    for database in fixture.keyspace.databases() {
        Access::free(&fixture.keyspace).for_each_entry(database, &mut |object| {
            held += object.private_bytes();
        });
    }
    let stored = fixture.keyspace.shard_indexes().map(|index| {
        let shard = fixture.keyspace.acquire(index);
        let parts = shard.databases();
        parts.map(|(_, part)| part.store.collection_bytes()).sum::<u64>()
    });
    assert_eq!(held, stored.sum::<u64>(), "each collection belongs to one key");
}

fn random_change(view: &mut WriteView<'_>, key: &Key<'_>, random: &mut Prng) {
    let text = random.below(300).to_string();
    let part = if random.one_in(20) { vec![b'x'; 6000] } else { text.into_bytes() };
    let parts = [&*part, b"v"];
    let create = WhenAbsent::Create;
    // A key of another type refuses, which is a result as good as any.
    match random.below(12) {
        0..3 => drop(view.push(key, End::Head, parts.into_iter(), create)),
        3 => drop(view.pop(key, End::Tail, 3, |_, _| ())),
        4 => drop(view.set_fields(key, parts.into_iter())),
        5 => drop(view.add_members(key, parts.into_iter())),
        6 => drop(view.score_members(key, &[(1.5, &part)], create, |_, score| Some(score))),
        7 => drop(view.pop_scored(key, Direction::Down, 2, |_, _, _| ())),
        8 => drop(view.remove_members(key, parts.into_iter())),
        9 => drop(view.set_expiry(key, later(random.below(5) as i64))),
        10 if random.one_in(3) => drop(view.set(key, &part, Expiry::Clear)),
        _ if random.one_in(3) => drop(view.remove(key)),
        _ => drop(view.change(
            key,
            "HDEL",
            parts.into_iter(),
            |hash: &mut collections::Hash, rules| {
                let removed = parts.iter().filter(|field| hash.remove(field, rules)).count();
                (removed, removed > 0)
            },
        )),
    }
}

#[test]
fn any_history_gives_each_collection_up_once() {
    let fixture = Fixture::with_segments(1 << 16, 256);
    let mut random = Prng::new(5);
    for round in 0..30 {
        for _ in 0..400 {
            let name = format!("key:{}", random.below(40));
            let key = fixture.key(&name);
            let database = DatabaseIndex(random.below(2) as u8);
            let mut guard = fixture.keyspace.lock(key.shard);
            random_change(&mut guard.write(database, NOW), &key, &mut random);
        }
        if round % 5 == 4 {
            Access::free(&fixture.keyspace).swap_databases(DB0, DB1, NOW).unwrap();
        }
        if round % 10 == 9 {
            Access::free(&fixture.keyspace).flush_database(DB0, NOW);
        }
        for shard in fixture.keyspace.shard_indexes() {
            fixture.keyspace.expire_step(shard, later(3), 10);
        }
        assert_exact(&fixture);
    }
    Access::free(&fixture.keyspace).flush_all(NOW);
    fixture.keyspace.drop_retired();
    assert_exact(&fixture);
}

#[test]
fn large_collection_stays_charged_until_it_is_freed() {
    let fixture = Fixture::new();
    push(&fixture, "small", b"x").unwrap();
    let before = fixture.keyspace.private_bytes();
    for _ in 0..1000 {
        push(&fixture, "k", &[b'x'; 1000]).unwrap();
    }
    assert!(fixture.keyspace.private_bytes() > before + 1_000_000);
    fixture.write("k", NOW, |view, key| assert!(view.remove(key)));
    assert!(fixture.keyspace.private_bytes() > before + 1_000_000);
    assert!(fixture.keyspace.drop_retired());
    assert!(fixture.keyspace.private_bytes() < before + 20_000);
    assert!(!fixture.keyspace.drop_retired());
}

#[test]
fn change_that_would_pass_the_limit_is_refused_before_it_is_made() {
    let fixture = Fixture::new();
    push(&fixture, "k", b"x").unwrap();
    fixture.records();
    fixture.keyspace.set_maxmemory(fixture.keyspace.used_memory() + 20_000);
    let refused = push(&fixture, "k", &[b'x'; 30_000]);
    let Err(Refusal::NeedRoom(NeedRoom { bytes, region: Region::Private })) = refused else {
        panic!("{refused:?}")
    };
    assert!(bytes >= 30_000);
    assert_eq!(fixture.records(), Vec::<String>::new());
    let length = fixture.write("k", NOW, |view, key| {
        view.as_read().collection::<List>(key).unwrap().map(ListView::len)
    });
    assert_eq!(length, Some(1));
    push(&fixture, "k", &[b'x'; 1000]).unwrap();
}

#[test]
fn eviction_frees_collections_until_the_limit_holds() {
    let fixture = Fixture::with_segments(1 << 16, 256);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let limit = fixture.keyspace.used_memory() + 2_000_000;
    fixture.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(1);
    for number in 0..20_000_u64 {
        let name = format!("key:{}", number / 10);
        let mut attempts = 0;
        while let Err(refusal) = push(&fixture, &name, &[b'x'; 900]) {
            let Refusal::NeedRoom(need) = refusal else { panic!("{refusal:?}") };
            let mut context = SweepContext::new(NOW, &mut random);
            fixture.keyspace.reserve(need, fixture.key(&name).shard, &mut context).unwrap();
            attempts += 1;
            assert!(attempts < 20, "room is made");
        }
        assert!(fixture.keyspace.used_memory() <= limit + 70_000, "{number}");
    }
    assert!(fixture.keyspace.counters().evicted_keys > 1000);
    assert_exact(&fixture);
}
