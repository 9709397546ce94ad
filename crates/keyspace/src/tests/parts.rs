//! Collections: their memory is counted, freed once, and bounded.

use base::prng::Prng;
use collections::{Collection, Direction, End, List};

use super::*;
use crate::{
    Access, EvictionPolicy, Expiry, NeedRoom, Refusal, Region, SweepContext, WhenAbsent, WriteView,
};

fn push(world: &World, name: &str, element: &[u8]) -> Result<usize, Refusal> {
    let element = std::iter::once(element);
    world.write(name, NOW, |view, key| view.push(key, End::Tail, element, WhenAbsent::Create))
}

/// Compares what is charged beyond `base` with what the collections that keys lead to take.
fn assert_exact(world: &World) {
    let mut held = 0;
    for database in world.keyspace.databases() {
        Access::free(&world.keyspace).for_each_entry(database, &mut |object| {
            held += object.collection().map_or(0, Collection::memory_bytes);
        });
    }
    let stored = world.keyspace.shard_indexes().map(|index| {
        let shard = world.keyspace.acquire(index);
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
            parts.clone().into_iter(),
            |hash: &mut collections::Hash, rules| {
                let removed = parts.iter().filter(|field| hash.remove(field, rules)).count();
                (removed, removed > 0)
            },
        )),
    }
}

#[test]
fn any_history_gives_each_collection_up_once() {
    let world = World::with_segments(1 << 16, 256);
    let mut random = Prng::new(5);
    for round in 0..30 {
        for _ in 0..400 {
            let name = format!("key:{}", random.below(40));
            let key = world.key(&name);
            let database = DatabaseIndex(random.below(2) as u8);
            let mut guard = world.keyspace.lock(key.shard);
            random_change(&mut guard.write(database, NOW), &key, &mut random);
        }
        if round % 5 == 4 {
            Access::free(&world.keyspace).swap_databases(DB0, DB1, NOW).unwrap();
        }
        if round % 10 == 9 {
            Access::free(&world.keyspace).flush_database(DB0, NOW);
        }
        for shard in world.keyspace.shard_indexes() {
            world.keyspace.expire_step(shard, later(3), 10);
        }
        assert_exact(&world);
    }
    Access::free(&world.keyspace).flush_all(NOW);
    world.keyspace.drop_retired();
    assert_exact(&world);
}

#[test]
fn large_collection_stays_charged_until_it_is_freed() {
    let world = World::new();
    push(&world, "small", b"x").unwrap();
    let before = world.keyspace.private_bytes();
    for _ in 0..1000 {
        push(&world, "k", &[b'x'; 1000]).unwrap();
    }
    assert!(world.keyspace.private_bytes() > before + 1_000_000);
    world.write("k", NOW, |view, key| assert!(view.remove(key)));
    assert!(world.keyspace.private_bytes() > before + 1_000_000);
    assert!(world.keyspace.drop_retired());
    assert!(world.keyspace.private_bytes() < before + 20_000);
    assert!(!world.keyspace.drop_retired());
}

#[test]
fn change_that_would_pass_the_limit_is_refused_before_it_is_made() {
    let world = World::new();
    push(&world, "k", b"x").unwrap();
    world.records();
    world.keyspace.set_maxmemory(world.keyspace.used_memory() + 20_000);
    let refused = push(&world, "k", &[b'x'; 30_000]);
    let Err(Refusal::NeedRoom(NeedRoom { bytes, region: Region::Private })) = refused else {
        panic!("{refused:?}")
    };
    assert!(bytes >= 30_000);
    assert_eq!(world.records(), Vec::<String>::new());
    let length = world.write("k", NOW, |view, key| {
        view.as_read().collection::<List>(key).unwrap().map(List::len)
    });
    assert_eq!(length, Some(1));
    push(&world, "k", &[b'x'; 1000]).unwrap();
}

#[test]
fn eviction_frees_collections_until_the_limit_holds() {
    let world = World::with_segments(1 << 16, 256);
    world.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let limit = world.keyspace.used_memory() + 2_000_000;
    world.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(1);
    for number in 0..20_000_u64 {
        let name = format!("key:{}", number / 10);
        let mut attempts = 0;
        while let Err(refusal) = push(&world, &name, &[b'x'; 900]) {
            let Refusal::NeedRoom(need) = refusal else { panic!("{refusal:?}") };
            let mut context = SweepContext::new(NOW, &mut random);
            world.keyspace.reserve(need, world.key(&name).shard, &mut context).unwrap();
            attempts += 1;
            assert!(attempts < 20, "room is made");
        }
        assert!(world.keyspace.used_memory() <= limit + 70_000, "{number}");
    }
    assert!(world.keyspace.counters().evicted_keys > 1000);
    assert_exact(&world);
}
