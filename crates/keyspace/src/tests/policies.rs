//! The promises of each eviction policy: which keys stay, which are evicted first, and that memory
//! stays within its limit whatever is written.

use std::collections::{HashMap, HashSet};

use base::collisions::Collisions;
use base::prng::Prng;
use collections::End;

use super::accounting::{assert_within, set_with_room_until};
use super::*;
use crate::eviction::Victims;
use crate::eviction::policy::KeyEvent;
use crate::eviction::recorded::{self, Seen, take_events};
use crate::{Access, EvictionPolicy, Expiry, NeedRoom, SweepContext, WhenAbsent};

/// What a history writes.
#[derive(Clone, Copy, Debug)]
enum Sizes {
    Small,
    Large,
    Mixed,
}

impl Sizes {
    /// The bytes above those of an empty keyspace: several small segments for the slab pages and
    /// the extents, so that eviction reaches for them often.
    fn limit(self) -> u64 {
        match self {
            Sizes::Small => 1 << 20,
            Sizes::Large | Sizes::Mixed => 3 << 20,
        }
    }

    const ALL: [Sizes; 3] = [Sizes::Small, Sizes::Large, Sizes::Mixed];

    fn draw(self, random: &mut Prng) -> usize {
        let is_large = match self {
            Sizes::Small => false,
            Sizes::Large => true,
            Sizes::Mixed => random.one_in(40),
        };
        // Few size classes: each of a shard's has a page that a lasting key may hold for itself.
        match is_large {
            true => 4_200 + random.below(60_000) as usize,
            false => [10, 90, 400][random.below(3) as usize],
        }
    }
}

/// Histories write so many times their limit.
const TIMES_LIMIT: u64 = 10;

/// Returns how many histories of each kind there are: the environment may ask for more.
fn history_count() -> u64 {
    let asked = std::env::var("FOREBAY_EVICTION_HISTORIES");
    asked.map_or(1, |text| text.parse().expect("a number of histories"))
}

/// Every key that a history wrote and did not lose, with whether it may never go.
#[derive(Default)]
struct Model {
    lasting: HashSet<String>,
    written_bytes: u64,
    refused: u64,
}

fn run(policy: EvictionPolicy, sizes: Sizes, seed: u64) -> (Fixture, Model) {
    let fixture = Fixture::with_segments(1 << 16, 2048);
    fixture.keyspace.set_eviction_policy(policy);
    let limit = fixture.keyspace.used_memory() + sizes.limit();
    fixture.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(seed);
    let mut model = Model::default();
    let mut number = 0_i64;
    while model.written_bytes < TIMES_LIMIT * sizes.limit() && model.refused < 2_000 {
        number += 1;
        let now = later(number * 7);
        let value = vec![b'v'; sizes.draw(&mut random)];
        // A third of the memory is taken by keys that last, so that the others have to move.
        let lasts =
            policy.is_volatile() && model.written_bytes < sizes.limit() / 3 * 2 && number % 2 == 0;
        let name =
            format!("{}:{}", if lasts { "lasting" } else { "passing" }, random.below(100_000));
        let expiry = match lasts {
            true => Expiry::Clear,
            false => Expiry::At(later(1_000_000_000 + random.below(1_000_000) as i64)),
        };
        match set_with_room_until(&fixture, &name, &value, expiry, now, &mut random) {
            Ok(()) => {
                model.written_bytes += value.len() as u64 + 40;
                if lasts {
                    model.lasting.insert(name.clone());
                }
            }
            Err(_) => model.refused += 1,
        }
        if random.one_in(3) {
            fixture.get(&format!("passing:{}", random.below(100_000)), now);
        }
        if number % 16 == 0 {
            assert_within(&fixture, limit);
        }
    }
    (fixture, model)
}

#[test]
fn no_policy_evicts_what_it_may_not_or_passes_the_limit() {
    for policy in EvictionPolicy::ALL.iter().copied() {
        for sizes in Sizes::ALL {
            for round in 0..history_count() {
                let (fixture, model) = run(policy, sizes, round + 1);
                let what = format!("{policy:?} {sizes:?} {round}");
                for name in &model.lasting {
                    assert!(fixture.get(name, NOW).is_some(), "{what}: {name} is gone");
                }
                let counters = fixture.keyspace.counters();
                let deleted =
                    fixture.records().iter().filter(|record| record.starts_with("DEL")).count();
                assert_eq!(counters.evicted_keys, deleted as u64, "{what}");
                if policy == EvictionPolicy::NO_EVICTION {
                    assert_eq!(counters.evicted_keys, 0, "{what}");
                    assert!(model.refused > 0, "{what}: it is full");
                } else {
                    assert!(counters.evicted_keys > 100, "{what}: {counters:?}");
                    assert_eq!(model.refused, 0, "{what}: keys that may go are there");
                }
            }
        }
    }
}

/// Fills a fixture until a tenth of `names` had to go, and returns which are left.
fn survivors(
    policy: EvictionPolicy,
    names: &[String],
    prepare: impl Fn(&Fixture),
) -> HashSet<String> {
    let fixture = Fixture::with_segments(1 << 16, 1024);
    fixture.keyspace.set_eviction_policy(policy);
    fixture.keyspace.set_eviction_samples(10);
    names.iter().enumerate().for_each(|(index, name)| {
        fixture.set_until(name, &"x".repeat(100), later(10_000_000 + index as i64 * 1000));
    });
    prepare(&fixture);
    let mut random = Prng::new(5);
    let now = later(5_000_000);
    let goal = names.len() as u64 * 9 / 10;
    while fixture.keyspace.counts(DB0).keys > goal {
        fixture.keyspace.set_maxmemory(fixture.keyspace.used_memory() - 200);
        fixture.keyspace.repay(&mut SweepContext::new(now, &mut random)).unwrap();
        fixture.keyspace.set_maxmemory(0);
    }
    names.iter().filter(|name| fixture.get(name, now).is_some()).cloned().collect()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("key:{index}")).collect()
}

/// Asserts that most of what is gone is of the first third of `names`.
fn assert_first_go(names: &[String], left: &HashSet<String>) {
    let gone: Vec<usize> =
        (0..names.len()).filter(|&index| !left.contains(&names[index])).collect();
    let of_first = gone.iter().filter(|&&index| index < names.len() / 3).count();
    assert!(gone.len() >= names.len() / 10, "{} are gone", gone.len());
    assert!(of_first * 100 >= gone.len() * 97, "{of_first} of {} gone", gone.len());
}

#[test]
fn lru_takes_what_was_not_used_for_longest() {
    for policy in [EvictionPolicy::ALLKEYS_LRU, EvictionPolicy::VOLATILE_LRU] {
        let names = names(6_000);
        let left = survivors(policy, &names, |fixture| {
            for (index, name) in names.iter().enumerate() {
                fixture.get(name, later(1_000 + index as i64 * 100));
            }
        });
        assert_first_go(&names, &left);
    }
}

#[test]
fn lfu_takes_what_was_used_least() {
    for policy in [EvictionPolicy::ALLKEYS_LFU, EvictionPolicy::VOLATILE_LFU] {
        let names = names(6_000);
        let left = survivors(policy, &names, |fixture| {
            for (index, name) in names.iter().enumerate() {
                // The first third is used once and later, the others more often and before.
                let (count, at) = if index < 2_000 { (1, 4_990_000) } else { (60, 4_950_000) };
                (0..count).for_each(|_| drop(fixture.get(name, later(at))));
            }
        });
        assert_first_go(&names, &left);
    }
}

#[test]
fn ttl_takes_what_ends_first() {
    let names = names(6_000);
    assert_first_go(&names, &survivors(EvictionPolicy::VOLATILE_TTL, &names, |_| ()));
}

#[test]
fn random_takes_any() {
    for policy in [EvictionPolicy::ALLKEYS_RANDOM, EvictionPolicy::VOLATILE_RANDOM] {
        let names = names(6_000);
        let left = survivors(policy, &names, |_| ());
        let thirds = [0, 1, 2].map(|third| {
            let names = &names[third * 2_000..][..2_000];
            names.iter().filter(|name| !left.contains(*name)).count()
        });
        assert!(thirds.iter().all(|gone| (120..320).contains(gone)), "{thirds:?}");
    }
}

#[test]
fn one_volatile_key_among_many_is_found_at_once() {
    for (policy, value_bytes) in [
        (EvictionPolicy::VOLATILE_LRU, 10),
        (EvictionPolicy::VOLATILE_RANDOM, 10),
        (EvictionPolicy::VOLATILE_TTL, 70_000),
        (EvictionPolicy::VOLATILE_LFU, 70_000),
    ] {
        let fixture = Fixture::with_segments(1 << 20, 256);
        let lasting = if value_bytes > 4096 { 300 } else { 50_000 };
        (0..lasting)
            .for_each(|index| fixture.set(&format!("key:{index}"), &"x".repeat(value_bytes)));
        fixture.set_until("one", &"x".repeat(value_bytes), later(1_000_000));
        fixture.keyspace.set_eviction_policy(policy);
        fixture.keyspace.set_maxmemory(fixture.keyspace.used_memory() - 1);
        let mut random = Prng::new(1);
        fixture.keyspace.repay(&mut SweepContext::new(NOW, &mut random)).unwrap();
        assert_eq!(fixture.get("one", NOW), None, "{policy:?}");
        assert_eq!(fixture.keyspace.counts(DB0).keys, lasting as u64);
        // None is left that may go.
        fixture.keyspace.set_maxmemory(fixture.keyspace.used_memory() - 1);
        let repaid: Result<(), NeedRoom> =
            fixture.keyspace.repay(&mut SweepContext::new(NOW, &mut random));
        assert!(repaid.is_err(), "{policy:?}");
        assert_eq!(fixture.keyspace.counts(DB0).keys, lasting as u64);
    }
}

#[test]
fn policy_may_change_at_any_time() {
    let fixture = Fixture::with_segments(1 << 17, 1024);
    let limit = fixture.keyspace.used_memory() + (4 << 20);
    fixture.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(13);
    let mut lasting: HashMap<String, usize> = HashMap::new();
    for number in 0..60_000_i64 {
        if number % 3_000 == 0 {
            // Under the policies of all keys none is promised to stay.
            lasting.clear();
            let policy = EvictionPolicy::ALL[random.below(7) as usize];
            fixture.keyspace.set_eviction_policy(policy);
            Access::free(&fixture.keyspace).flush_all(NOW);
        }
        let policy = fixture.keyspace.eviction_policy();
        let lasts = policy.is_volatile() && lasting.len() < 2_000 && number % 2 == 0;
        let name = format!("{lasts}:{}", random.below(30_000));
        let expiry = if lasts { Expiry::Clear } else { Expiry::At(later(1_000_000_000)) };
        let value = vec![b'v'; [10, 90, 1_000][random.below(3) as usize]];
        let now = later(number * 10);
        set_with_room_until(&fixture, &name, &value, expiry, now, &mut random).unwrap();
        if lasts {
            lasting.insert(name, value.len());
        }
        if number % 1_000 == 999 {
            for (name, bytes) in &lasting {
                assert_eq!(
                    fixture.get(name, now).map(|value| value.len()),
                    Some(*bytes),
                    "{policy:?}"
                );
            }
            assert_within(&fixture, limit);
        }
    }
}

#[test]
fn index_that_lacks_room_does_not_empty_a_small_arena() {
    const LIMIT: u64 = 1500 << 10;
    for policy in [EvictionPolicy::VOLATILE_LRU, EvictionPolicy::ALLKEYS_RANDOM] {
        // All slab pages lie in one segment, and as many shards as a server of two workers has.
        let fixture = Fixture::with_shards(arena::HeapSource::new(1 << 20, 256), 64);
        fixture.keyspace.set_sink(None);
        fixture.keyspace.set_eviction_policy(policy);
        fixture.keyspace.set_maxmemory(LIMIT);
        let mut random = Prng::new(1);
        let (mut least, mut is_full) = (u64::MAX, false);
        for number in 0..30_000 {
            let value = vec![b'v'; 1 + random.below(100) as usize];
            let (name, now) = (format!("key:{number}"), later(number / 50));
            let expiry = Expiry::At(later(10_000_000));
            set_with_room_until(&fixture, &name, &value, expiry, now, &mut random).unwrap();
            is_full |= fixture.keyspace.counters().evicted_keys > 500;
            if is_full {
                least = least.min(fixture.keyspace.used_memory());
            }
        }
        assert!(is_full);
        let percent = least * 100 / LIMIT;
        println!(
            "{policy:?}: {} keys, at least {percent} % in use",
            fixture.keyspace.key_count(DB0)
        );
        assert!(percent >= 70, "{policy:?}: {percent} % of the limit were in use");
        assert_within(&fixture, LIMIT);
    }
}

#[test]
fn memory_above_the_limit_is_repaid_by_the_oldest_large_keys_of_all_shards() {
    const KEYS: u64 = 128;
    let fixture = Fixture::with_shards(arena::HeapSource::new(1 << 18, 1024), 64);
    let (keyspace, random) = (&fixture.keyspace, &mut Prng::new(9));
    keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    keyspace.set_eviction_samples(16);
    // Two keys for each shard, so that one of the newer half is the oldest of many a shard.
    let name = |number: u64| format!("key:{number}");
    for number in 0..KEYS {
        let value = vec![b'v'; 16 << 10];
        let (name, now) = (name(number), later(10 * number as i64));
        fixture.write(&name, now, |view, key| view.set(key, &value, Expiry::Clear)).unwrap();
    }
    let now = later(10 * KEYS as i64);
    keyspace.set_maxmemory(keyspace.used_memory() - (KEYS / 4 * (16 << 10)));
    while keyspace.is_over_limit() {
        keyspace.repay(&mut SweepContext::new(now, random)).expect("keys may go");
    }
    let is_gone = |number: &u64| fixture.get(&name(*number), now).is_none();
    assert!((0..KEYS).filter(is_gone).count() as u64 >= KEYS / 8);
    let newer = (KEYS / 2..KEYS).filter(is_gone).count();
    assert!(newer <= 1, "{newer} keys of the newer half are gone");
}

/// A fixture whose policy remembers all that it is told.
fn recorded_world() -> Fixture {
    let fixture = Fixture::with_segments(1 << 16, 1024);
    let mut policies = EvictionPolicy::ALL.iter().copied();
    let policy = policies.find(|policy| policy.name() == recorded::ALLKEYS.name);
    fixture.keyspace.set_eviction_policy(policy.expect("it is in the list"));
    take_events();
    fixture
}

#[test]
fn policy_with_memory_sees_uses_misses_insertions_and_removals() {
    let fixture = recorded_world();
    let seen = |name: &str, event| (DB0, fixture.key(name).hash, event);
    let check = |expected: &[Seen]| assert_eq!(take_events(), expected);
    fixture.set("a", "one");
    let events = take_events();
    let [(.., KeyEvent::Inserted(bytes))] = events[..] else { panic!("{events:?}") };
    assert_eq!(events, [seen("a", KeyEvent::Inserted(bytes))]);
    fixture.get("a", NOW);
    check(&[seen("a", KeyEvent::Used(1))]);
    fixture.get("b", NOW);
    check(&[seen("b", KeyEvent::Missed)]);
    fixture.set("a", "two");
    check(&[seen("a", KeyEvent::Written)]);
    fixture.write("a", NOW, |view, key| assert!(view.remove(key)));
    check(&[seen("a", KeyEvent::Removed(bytes, Cause::Command))]);
    fixture.set_until("a", "six", later(10));
    let events = take_events();
    let [(.., KeyEvent::Inserted(bytes))] = events[..] else { panic!("{events:?}") };
    fixture.write("a", later(11), |view, key| assert!(!view.remove(key)));
    check(&[seen("a", KeyEvent::Removed(bytes, Cause::ExpiredOnAccess))]);
}

#[test]
fn policy_with_memory_tells_databases_apart() {
    let fixture = recorded_world();
    let key = fixture.key("a");
    let set_in = |database| {
        let mut guard = fixture.keyspace.lock(key.shard);
        guard.write(database, NOW).set(&key, b"v", Expiry::Clear).unwrap();
    };
    let events_of = |database| {
        let events = take_events().into_iter().filter(|(of, ..)| *of == database);
        events.map(|(.., event)| event).collect::<Vec<_>>()
    };
    [DB0, DB1].into_iter().for_each(set_in);
    let mut access = Access::free(&fixture.keyspace);
    access.flush_database(DB1, NOW);
    assert!(matches!(events_of(DB1)[..], [.., KeyEvent::Flushed { keys: 1, .. }]));
    // The policy itself checks that no key is inserted twice, and that what it knows is there.
    fixture.get("a", NOW).expect("it is in another database");
    set_in(DB1);
    access.swap_databases(DB0, DB1, NOW).unwrap();
    assert!(events_of(DB0).contains(&KeyEvent::Swapped(DB1)));
    fixture.write("a", NOW, |view, key| assert!(view.remove(key)));
    let mut guard = fixture.keyspace.lock(key.shard);
    assert!(guard.write(DB1, NOW).move_to(&key, DB0).unwrap());
    drop(guard);
    assert!(matches!(events_of(DB1)[..], [.., KeyEvent::Removed(_, Cause::Command)]));
    access.flush_all(NOW);
    assert!(matches!(events_of(DB0)[..], [.., KeyEvent::Flushed { keys: 1, .. }]));
    set_in(DB0);
}

#[test]
fn policy_with_memory_knows_what_each_key_takes() {
    let fixture = recorded_world();
    let size = |name: &str| {
        let key = fixture.key(name);
        let guard = fixture.keyspace.lock(key.shard);
        guard.read(DB0, NOW).peek(&key).map(|object| object.memory_bytes())
    };
    let told_bytes = std::cell::RefCell::new(std::collections::HashMap::new());
    // What a key takes by all that was told of it.
    let told = |name: &str| {
        let mut told_bytes = told_bytes.borrow_mut();
        for (_, hash, event) in take_events() {
            let bytes = told_bytes.entry(hash).or_insert(0_u64);
            match event {
                KeyEvent::Inserted(size) => *bytes = size,
                KeyEvent::Resized(before, after) => *bytes = *bytes + after - before,
                _ => {}
            }
        }
        told_bytes.get(&fixture.key(name).hash).copied()
    };
    let push = |name: &str, bytes: usize| {
        let element = vec![b'e'; bytes];
        let create = WhenAbsent::Create;
        fixture.write(name, NOW, |view, key| {
            view.push(key, End::Tail, [element.as_slice()].into_iter(), create).unwrap();
        });
    };
    let mut before = 0;
    for bytes in [10, 1_000, 20_000, 9_000] {
        push("list", bytes);
        let now = told("list").expect("it has grown");
        assert_eq!(Some(now), size("list"));
        assert!(now > before + bytes as u64 / 2, "{now} bytes behind {before}");
        before = now;
    }
    fixture.set("string", "short");
    fixture.write("string", NOW, |view, key| view.append(key, &[b'x'; 5_000])).unwrap();
    assert_eq!(told("string"), size("string"));
    // A value of another kind takes their places; what goes had what was told last.
    fixture.set("list", "a string now");
    assert_eq!(told("list"), size("list"));
    push("other", 3_000);
    fixture.write("other", NOW, |view, key| {
        view.pop(key, End::Head, 1, |_, _| ()).unwrap();
    });
    assert_eq!(size("other"), None);
    for name in ["list", "string"] {
        fixture.write(name, NOW, |view, key| assert!(view.remove(key)));
    }
}

#[test]
fn policy_with_memory_decides_by_it_and_is_charged_for_it() {
    let fixture = recorded_world();
    fixture.keyspace.set_eviction_samples(10);
    let limit = fixture.keyspace.used_memory() + (1 << 20);
    fixture.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(3);
    let hot = names(100);
    for index in 0..20_000 {
        let name = format!("cold:{index}");
        set_with_room_until(&fixture, &name, &[b'v'; 100], Expiry::Clear, NOW, &mut random)
            .expect("keys that may go are there");
        let hot = &hot[index % hot.len()];
        if fixture.get(hot, NOW).is_none() {
            set_with_room_until(&fixture, hot, &[b'v'; 100], Expiry::Clear, NOW, &mut random)
                .expect("keys that may go are there");
        }
    }
    let events = take_events();
    let count = |is: fn(&KeyEvent) -> bool| events.iter().filter(|(.., event)| is(event)).count();
    let evicted = count(|event| matches!(event, KeyEvent::Removed(_, Cause::Evicted)));
    assert_eq!(evicted as u64, fixture.keyspace.counters().evicted_keys);
    let hot_hashes: HashSet<u64> = hot.iter().map(|name| fixture.key(name).hash).collect();
    let hot_misses = events
        .iter()
        .filter(|(_, hash, event)| *event == KeyEvent::Missed && hot_hashes.contains(hash))
        .count();
    // Each is missed once before it is there.
    assert!(hot_misses < hot.len() * 2, "{hot_misses} misses of {} hot keys", hot.len());
    let (key_count, before) = (fixture.keyspace.counts(DB0).keys, fixture.keyspace.used_memory());
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let freed = before - fixture.keyspace.used_memory();
    assert_eq!(freed, key_count * recorded::BYTES_PER_KEY);
}

/// Adds `count` keys whose hashes are all one, more than a chain takes, and evicts those of their
/// shard until `left` are there; returns how many are.
fn evict_of_one_hash(policy: EvictionPolicy, count: u64, left: u64) -> u64 {
    let fixture = Fixture::with_segments(1 << 16, 1024);
    let (keyspace, random) = (&fixture.keyspace, &mut Prng::new(3));
    keyspace.set_eviction_policy(policy);
    let same = Collisions::new(keyspace.hasher(), *b"{t}aaaaaaaaaaaaa");
    for index in 0..count {
        let bytes = same.key(index);
        let key = keyspace.hasher().key(&bytes);
        let mut guard = keyspace.lock(key.shard);
        let expiry = Expiry::At(later(1_000_000 + index as i64));
        guard.write(DB0, later(index as i64)).set(&key, b"value", expiry).unwrap();
    }
    let bytes = same.key(0);
    let shard = keyspace.hasher().key(&bytes).shard;
    for _ in 0..1_000 {
        if keyspace.key_count(DB0) <= left {
            break;
        }
        keyspace.evict_from(shard, 1, Victims::Any, &mut SweepContext::new(later(1_000), random));
    }
    // What is counted is there.
    let is_there = |index: &u64| {
        let bytes = same.key(*index);
        let key = keyspace.hasher().key(&bytes);
        keyspace.lock(key.shard).read(DB0, NOW).string(&key).unwrap().is_some()
    };
    let found = (0..count).filter(is_there).count() as u64;
    assert_eq!(found, keyspace.key_count(DB0), "{policy:?}");
    found
}

#[test]
fn keys_of_one_hash_are_evicted_one_by_one() {
    // Neither the one that evicts nothing nor the one that records keys, which have to be text.
    let left_out = [EvictionPolicy::NO_EVICTION.name(), recorded::ALLKEYS.name];
    let policies = EvictionPolicy::ALL.iter().copied();
    for policy in policies.filter(|policy| !left_out.contains(&policy.name())) {
        // Two that only their names tell apart, and hundreds of which most are spilled.
        assert_eq!(evict_of_one_hash(policy, 2, 1), 1, "{policy:?}");
        assert_eq!(evict_of_one_hash(policy, 300, 100), 100, "{policy:?}");
        assert_eq!(evict_of_one_hash(policy, 300, 0), 0, "{policy:?}");
    }
}

/// Returns 100 large entries, one used after the other, and the names of the first twelve.
fn with_large_entries() -> (Fixture, Vec<String>) {
    let fixture = Fixture::with_segments(1 << 18, 64);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    fixture.keyspace.set_eviction_samples(24);
    for number in 0..100 {
        let at = later(number * 1000);
        let name = format!("large:{number}");
        let set = |view: &mut crate::WriteView<'_>, key: &Key<'_>| {
            view.set(key, &[b'v'; 8_000], Expiry::Clear)
        };
        fixture.write(&name, at, set).expect("there is no limit");
    }
    (fixture, (0..12).map(|number| format!("large:{number}")).collect())
}

/// The time at which nothing of [`with_large_entries`] is new.
const LARGE_ENTRIES_END: UnixMs = UnixMs(NOW.0 + 200_000);

fn evict_large(fixture: &Fixture, count: usize, random: &mut Prng) {
    for _ in 0..count {
        let context = &mut SweepContext::new(LARGE_ENTRIES_END, random);
        assert!(fixture.keyspace.evict_blocks(1, context).freed > 0);
    }
}

fn count_present(fixture: &Fixture, names: &[String]) -> usize {
    names.iter().filter(|name| fixture.get(name, LARGE_ENTRIES_END).is_some()).count()
}

#[test]
fn large_entries_that_earlier_choices_have_met_go_first() {
    let present: usize = (0..16)
        .map(|number| {
            let (fixture, old) = with_large_entries();
            evict_large(&fixture, old.len(), &mut Prng::new(number));
            count_present(&fixture, &old)
        })
        .sum();
    // Without a memory more than 40 of the 192.
    assert!(present < 16, "{present} of the oldest are there");
}

#[test]
fn large_entry_that_is_used_after_a_choice_has_met_it_stays() {
    for number in 0..16 {
        let (fixture, old) = with_large_entries();
        let random = &mut Prng::new(number);
        // Nearly all of the others are met and remembered.
        evict_large(&fixture, 4, random);
        let left = count_present(&fixture, &old);
        evict_large(&fixture, 12, random);
        assert_eq!(count_present(&fixture, &old), left, "all of them were used");
    }
}
