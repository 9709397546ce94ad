//! Memory: counts per slot, the limit, eviction.

use std::collections::HashMap;

use arena::SegmentSource;
use arena::layout::block_value_offset;
use arena::pins::{HeapPins, PIN_SLOTS, PinMemory, publish, release};
use base::ShardIndex;
use base::prng::Prng;

use super::*;
use crate::segment_rebalance::ReclaimBy;
use crate::{Access, EvictionPolicy, Expiry, NeedRoom, Region, SlotCount, SweepContext};

/// Compares the kept counts of every slot with a walk over all entries.
fn assert_slot_counts_exact(fixture: &Fixture) {
    let names: Vec<String> = (0..400).map(|number| format!("key:{number}")).collect();
    assert_slot_counts_of(fixture, &names);
}

/// As [`assert_slot_counts_exact`], of the slots of the keys of these `names`.
pub(super) fn assert_slot_counts_of(fixture: &Fixture, names: &[String]) {
    for database in fixture.keyspace.databases() {
        let mut expected: HashMap<u16, SlotCount> = HashMap::new();
        Access::free(&fixture.keyspace).for_each_entry(database, &mut |entry| {
            let count = expected.entry(base::key_slot(entry.key()).0).or_default();
            count.keys += 1;
            count.bytes += entry.memory_bytes();
        });
        for name in names {
            let key = fixture.key(name);
            let guard = fixture.keyspace.lock(key.shard);
            let found = guard.read(database, NOW).slot_count(&key);
            assert_eq!(found, expected.get(&key.slot.0).copied().unwrap_or_default(), "{name}");
        }
        let keys: u64 = expected.values().map(|count| count.keys).sum();
        assert_eq!(fixture.keyspace.counts(database).keys, keys);
    }
}

/// Compares what was charged beyond the `base` of an empty keyspace with what tables and allocators
/// have.
fn assert_private_bytes_exact(fixture: &Fixture, base: u64) {
    let tables = fixture.keyspace.shard_indexes().map(|index| {
        let shard = fixture.keyspace.acquire(index);
        shard.databases().map(|(_, part)| part.private_bytes()).sum::<u64>()
    });
    let arena = fixture.keyspace.arena().usage().private_bytes;
    assert_eq!(fixture.keyspace.private_bytes(), base + tables.sum::<u64>() + arena);
}

fn random_change(fixture: &Fixture, random: &mut Prng) {
    let name = format!("key:{}", random.below(400));
    let key = fixture.key(&name);
    let mut value = vec![b'v'; [3, 40, 300, 3000, 9000][random.below(5) as usize]];
    random.fill(&mut value[..3]);
    let database = DatabaseIndex(random.below(3) as u8);
    if random.one_in(500) {
        return Access::free(&fixture.keyspace).flush_database(database, NOW);
    }
    if random.one_in(200) {
        let other = DatabaseIndex(random.below(3) as u8);
        return Access::free(&fixture.keyspace).swap_databases(database, other, NOW).unwrap();
    }
    let mut guard = fixture.keyspace.lock(key.shard);
    let mut view = guard.write(database, NOW);
    match random.below(8) {
        0 => view.set(&key, &value, Expiry::Keep).unwrap(),
        1 => view.set(&key, &value, Expiry::At(later(5))).unwrap(),
        2 => view.set(&key, &value, Expiry::Clear).unwrap(),
        3 => drop(view.append(&key, &value).unwrap()),
        4 => drop(view.set_range(&key, random.below(5000) as usize, &value).unwrap()),
        5 => drop(view.set_expiry(&key, later(1)).unwrap()),
        6 => drop(view.persist(&key).unwrap()),
        _ => drop(view.remove(&key)),
    }
}

#[test]
fn slot_counts_stay_exact_over_any_history() {
    let fixture = Fixture::with_segments(1 << 16, 1024);
    let base = fixture.keyspace.private_bytes() - fixture.keyspace.arena().usage().private_bytes;
    let mut random = Prng::new(3);
    for round in 0..20 {
        (0..500).for_each(|_| random_change(&fixture, &mut random));
        for shard in fixture.keyspace.shard_indexes() {
            fixture.keyspace.expire_step(shard, if round % 2 == 0 { NOW } else { later(2) }, 20);
        }
        assert_slot_counts_exact(&fixture);
        assert_private_bytes_exact(&fixture, base);
    }
}

#[test]
fn keys_with_a_time_to_live_and_large_values_have_their_private_share() {
    let fixture = Fixture::with_segments(1 << 20, 256);
    let growth = |change: &dyn Fn()| {
        let before = fixture.keyspace.private_bytes();
        change();
        fixture.keyspace.private_bytes() - before
    };
    let set_all = |at: UnixMs| {
        (0..10_000).for_each(|number| fixture.set_until(&format!("k:{number}"), "v", at));
    };
    assert!(growth(&|| set_all(later(1000))) >= 10_000 * 8, "each is in a list of its table");
    let value = "x".repeat(5000);
    let large = || (0..10_000).for_each(|number| fixture.set(&format!("large:{number}"), &value));
    assert!(growth(&large) >= 10_000 * 32, "each block has a record");
}

#[test]
fn memory_comes_back_when_everything_is_removed() {
    let fixture = Fixture::new();
    // What is free stays listed.
    let charged_bytes =
        || fixture.keyspace.private_bytes() - fixture.keyspace.arena().usage().private_bytes;
    let before = (charged_bytes(), fixture.keyspace.arena().usage().index_bytes);
    for number in 0..2000 {
        fixture.set(&format!("key:{number}"), &"x".repeat(number % 6000));
    }
    assert!(charged_bytes() > before.0);
    Access::free(&fixture.keyspace).flush_all(NOW);
    let usage = fixture.keyspace.arena().usage();
    assert_eq!((usage.slab_bytes, usage.extent_bytes), (0, 0));
    assert_eq!((charged_bytes(), usage.index_bytes), before);
}

#[test]
fn write_without_room_changes_nothing() {
    let fixture = Fixture::new();
    fixture.set("k", "v");
    fixture.keyspace.set_maxmemory(fixture.keyspace.used_memory());
    let digest = Access::free(&fixture.keyspace).digest();
    fixture.records();
    let big = vec![b'x'; 60_000];
    let need = fixture.write("k", NOW, |view, key| view.set(key, &big, Expiry::Clear));
    assert!(need.unwrap_err().bytes >= 60_000);
    assert!(fixture.write("new", NOW, |view, key| view.set(key, &big, Expiry::Clear)).is_err());
    assert!(fixture.write("k", NOW, |view, key| view.append(key, &big)).is_err());
    assert!(fixture.write("k", NOW, |view, key| view.set_range(key, 9, &big)).is_err());
    assert_eq!(Access::free(&fixture.keyspace).digest(), digest);
    assert_eq!(fixture.records(), Vec::<String>::new());
    assert_slot_counts_exact(&fixture);
}

#[test]
fn private_bytes_leave_less_to_the_arena() {
    let fixture = Fixture::new();
    let limit = fixture.keyspace.used_memory() + 200_000;
    fixture.keyspace.set_maxmemory(limit);
    let value = vec![b'x'; 100_000];
    let set = || fixture.write("k", NOW, |view, key| view.set(key, &value, Expiry::Clear));
    fixture.keyspace.charge(150_000);
    assert!(set().is_err());
    assert!(!fixture.keyspace.is_over_limit());
    fixture.keyspace.charge(100_000);
    assert!(fixture.keyspace.is_over_limit());
    fixture.keyspace.discharge(250_000);
    assert!(!fixture.keyspace.is_over_limit());
    set().unwrap();
    assert!(fixture.keyspace.used_memory() <= limit);
}

#[test]
fn atomic_record_passes_the_limit_and_is_repaid() {
    let fixture = Fixture::new();
    fixture.set("k", "v");
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let limit = fixture.keyspace.used_memory() + 100_000;
    fixture.keyspace.set_maxmemory(limit);
    let key = fixture.key("big");
    let mut guard = fixture.keyspace.lock(key.shard);
    guard.begin_atomic();
    guard.write(DB0, NOW).set(&key, &vec![b'x'; 300_000], Expiry::Clear).unwrap();
    guard.finish();
    assert!(fixture.keyspace.is_over_limit());
    let mut random = Prng::new(1);
    let mut context = SweepContext::new(NOW, &mut random);
    fixture.keyspace.repay(&mut context).unwrap();
    assert!(fixture.keyspace.used_memory() <= limit);
}

#[test]
fn nothing_to_make_room_for_is_no_shortage() {
    let fixture = Fixture::new();
    fixture.set("k", "v");
    fixture.keyspace.set_maxmemory(fixture.keyspace.used_memory() + 1_000_000);
    let mut random = Prng::new(1);
    let mut context = SweepContext::new(NOW, &mut random);
    for policy in [EvictionPolicy::NO_EVICTION, EvictionPolicy::ALLKEYS_LRU] {
        fixture.keyspace.set_eviction_policy(policy);
        // As where another worker has evicted between the look at the limit and this call.
        assert_eq!(fixture.keyspace.repay(&mut context), Ok(()), "{policy:?}");
    }
    assert_eq!(fixture.get("k", NOW).as_deref(), Some("v"));
}

#[test]
fn noeviction_refuses_and_keeps_every_key() {
    let fixture = Fixture::new();
    fixture.set("k", "v");
    fixture.keyspace.set_maxmemory(1);
    let mut random = Prng::new(1);
    let mut context = SweepContext::new(NOW, &mut random);
    let need = NeedRoom { bytes: 100, region: Region::Slab };
    assert_eq!(fixture.keyspace.reserve(need, ShardIndex(0), &mut context), Err(need));
    assert_eq!(fixture.get("k", NOW).as_deref(), Some("v"));
}

/// Asserts that memory is within `limit`, but for the 32nd that index and slab pages may pass it by
/// and what shards remember of good victims, which the next command repays.
pub fn assert_within(fixture: &Fixture, limit: u64) {
    let used = fixture.keyspace.used_memory();
    assert!(used <= limit + limit / 32 + (32 << 10), "{used} of {limit} bytes are used");
}

fn set_with_room(fixture: &Fixture, name: &str, value: &[u8], now: UnixMs, random: &mut Prng) {
    let result = set_with_room_until(fixture, name, value, Expiry::Clear, now, random);
    result.unwrap_or_else(|need| {
        panic!("no room for {name}: {need:?}, {:?}", fixture.keyspace.arena().usage())
    });
}

/// Sets keys as the engine does: makes room and tries again, a bounded number of times.
pub fn set_with_room_until(
    fixture: &Fixture,
    name: &str,
    value: &[u8],
    expiry: Expiry,
    now: UnixMs,
    random: &mut Prng,
) -> Result<(), NeedRoom> {
    if fixture.keyspace.is_over_limit() {
        fixture.keyspace.repay(&mut SweepContext::new(now, random))?;
    }
    let set = || fixture.write(name, now, |view, key| view.set(key, value, expiry));
    let mut result = set();
    for attempt in 0..16 {
        let Err(need) = result else { break };
        let mut context = SweepContext::new(now, random);
        fixture.keyspace.reserve(need.after(attempt), fixture.key(name).shard, &mut context)?;
        result = set();
    }
    result
}

#[test]
fn allkeys_lru_makes_room_and_keeps_what_is_used() {
    let fixture = Fixture::with_segments(1 << 16, 1024);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let limit = fixture.keyspace.used_memory() + (4 << 20);
    fixture.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(11);
    (0..100).for_each(|number| {
        set_with_room(&fixture, &format!("hot:{number}"), b"h", NOW, &mut random)
    });
    let value = [b'c'; 100];
    for number in 0..100_000_i64 {
        let now = later(number);
        set_with_room(&fixture, &format!("cold:{number}"), &value, now, &mut random);
        if number % 100 == 0 {
            (0..100).for_each(|hot| drop(fixture.get(&format!("hot:{hot}"), now)));
        }
        assert_within(&fixture, limit);
    }
    let end = later(100_000);
    let kept = (0..100).filter(|hot| fixture.get(&format!("hot:{hot}"), end).is_some()).count();
    assert!(kept >= 95, "{kept} of 100 hot keys are there");
    let counters = fixture.keyspace.counters();
    assert!(counters.evicted_keys > 50_000, "{counters:?}");
    let deletions = fixture.records().iter().filter(|record| record.starts_with("DEL")).count();
    assert_eq!(deletions as u64, counters.evicted_keys);
    assert_slot_counts_exact(&fixture);
}

#[test]
fn touched_memory_is_not_used_above_a_limit_that_private_memory_has_lowered() {
    let fixture = Fixture::with_segments(1 << 16, 1024);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let limit = fixture.keyspace.used_memory() + (4 << 20);
    fixture.keyspace.set_maxmemory(limit);
    let (mut random, mut number) = (Prng::new(11), 0);
    let mut set_many = |is_checked: bool| {
        for _ in 0..20_000 {
            number += 1;
            set_with_room(&fixture, &format!("key:{number}"), &[b'v'; 100], NOW, &mut random);
            let used = fixture.keyspace.used_memory();
            assert!(!is_checked || used <= limit, "{used} of {limit} after {number}");
        }
    };
    set_many(false);
    fixture.keyspace.charge(1 << 20);
    set_many(false);
    assert!(!fixture.keyspace.is_over_limit());
    set_many(true);
}

#[test]
fn small_entry_without_room_has_a_32768th_of_the_limit_go_and_4_kib_at_most() {
    for (limit, least) in [(16 << 20, 512), (64 << 20, 2048), (1 << 30, 4096)] {
        let fixture = Fixture::with_segments(1 << 16, 1024);
        let keyspace = &fixture.keyspace;
        keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
        (0..10_000).for_each(|number| fixture.set(&format!("key:{number}"), &"v".repeat(200)));
        keyspace.set_maxmemory(limit);
        let bytes = || {
            let of = |index| {
                let mut guard = keyspace.lock(index);
                let parts = guard.shard_mut(index).databases();
                parts.map(|(_, part)| part.slots.total().bytes).sum::<u64>()
            };
            keyspace.shard_indexes().map(of).sum::<u64>()
        };
        let before = bytes();
        let need = NeedRoom { bytes: 88, region: Region::Slab };
        let mut random = Prng::new(3);
        let context = &mut SweepContext::new(NOW, &mut random);
        keyspace.reserve(need, fixture.key("key").shard, context).unwrap();
        let gone = before - bytes();
        // The last one that goes takes less than 256 bytes.
        assert!((least..least + 256).contains(&gone), "{gone} bytes of {limit}");
    }
}

#[test]
fn large_values_are_evicted_for_large_values() {
    let fixture = Fixture::with_segments(1 << 20, 256);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let limit = fixture.keyspace.used_memory() + (16 << 20);
    fixture.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(5);
    for number in 0..500_i64 {
        let value = vec![b'v'; 4096 + random.below(1 << 20) as usize];
        set_with_room(
            &fixture,
            &format!("large:{number}"),
            &value,
            later(number * 1000),
            &mut random,
        );
        set_with_room(
            &fixture,
            &format!("small:{number}"),
            b"v",
            later(number * 1000),
            &mut random,
        );
        assert_within(&fixture, limit);
    }
    assert!(fixture.keyspace.counts(DB0).keys > 20);
}

#[test]
fn victim_that_a_reader_holds_is_passed_over() {
    let source = HeapSource::new(1 << 20, 64);
    let base = source.base().addr().get() as u64;
    let fixture = Fixture::over(source);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let names = ["one", "two", "three", "four"];
    names.iter().for_each(|name| fixture.set(name, &"x".repeat(1 << 20)));
    let pins: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
    fixture.keyspace.arena().pins().add(1, pins.clone());
    let pin = |slot: usize, name: &str| {
        let key = fixture.key(name);
        let guard = fixture.keyspace.lock(key.shard);
        let value = guard.read(DB0, NOW).string(&key).unwrap().unwrap().as_ptr().addr() as u64;
        publish(pins.words(), slot, value - block_value_offset(name.len() as u64) - base);
    };
    let there = || names.map(|name| fixture.get(name, NOW).is_some());
    let mut random = Prng::new(2);
    let mut repay = |excess: u64| {
        fixture.keyspace.set_maxmemory(fixture.keyspace.used_memory() - excess);
        fixture.keyspace.repay(&mut SweepContext::new(NOW, &mut random))
    };
    names[..3].iter().enumerate().for_each(|(slot, name)| pin(slot, name));
    assert_eq!(repay(1 << 20), Ok(()));
    assert_eq!(there(), [true, true, true, false]);
    assert!(repay(1 << 20).is_err(), "what is held frees no memory");
    assert_eq!(there(), [true, true, true, false]);
    release(pins.words(), 1);
    assert_eq!(repay(1 << 20), Ok(()));
    assert_eq!(there(), [true, false, true, false]);
}

/// More sessions than are looked through for one block.
fn crowd(fixture: &Fixture, base: u64) -> Vec<Arc<dyn PinMemory>> {
    let sessions: Vec<Arc<dyn PinMemory>> =
        (0..200).map(|_| Arc::new(HeapPins::new()) as Arc<dyn PinMemory>).collect();
    for (session, pins) in sessions.iter().enumerate() {
        fixture.keyspace.arena().pins().add(session as u64, pins.clone());
        (0..PIN_SLOTS).for_each(|slot| publish(pins.words(), slot, base));
    }
    assert!(fixture.keyspace.arena().pins().are_crowded());
    sessions
}

#[test]
fn eviction_finds_room_among_the_pins_of_many_sessions() {
    let fixture = Fixture::with_segments(1 << 20, 256);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let limit = fixture.keyspace.used_memory() + (32 << 20);
    fixture.keyspace.set_maxmemory(limit);
    let _sessions = crowd(&fixture, 1 << 40);
    let mut random = Prng::new(3);
    for round in 0..500 {
        let value = vec![b'x'; 10_000 << (round % 7)];
        set_with_room(&fixture, &format!("large:{round}"), &value, later(round), &mut random);
        assert_within(&fixture, limit);
    }
    assert!(fixture.keyspace.used_memory() > limit / 2, "no more goes than room is needed for");
}

#[test]
fn deleted_values_are_free_after_one_look_at_the_pins_of_many_sessions() {
    let source = HeapSource::new(1 << 20, 64);
    let base = source.base().addr().get() as u64;
    let fixture = Fixture::over(source);
    let sessions = crowd(&fixture, 1 << 40);
    let names: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
    names.iter().for_each(|name| fixture.set(name, &"x".repeat(100_000)));
    let key = fixture.key("k7");
    let guard = fixture.keyspace.lock(key.shard);
    let value = guard.read(DB0, NOW).string(&key).unwrap().unwrap().as_ptr().addr() as u64;
    drop(guard);
    publish(sessions[150].words(), 9, value - block_value_offset(2) - base);
    names.iter().for_each(|name| assert!(fixture.write(name, NOW, |view, key| view.remove(key))));
    let arena = fixture.keyspace.arena();
    assert!(arena.retired_bytes() >= 100 * 100_000 && arena.has_retired());
    assert!(!arena.is_reclaim_due(), "it is due from 16 MiB on");
    let held = arena.reclaim_deferred();
    assert!((100_000..110_000).contains(&held), "one value is held: {held}");
    assert_eq!((arena.retired_bytes(), arena.usage().extent_bytes), (held, held));
    assert_eq!(arena.reclaim_deferred(), 0, "nobody has to look again before the next release");
    release(sessions[150].words(), 9);
    arena.reclaim();
    assert_eq!((arena.usage().extent_bytes, arena.has_retired()), (0, false));
}

/// Sizes change for good several times: each kind of value gets the memory that the other had, no
/// write is refused, and memory stays within the limit.
#[test]
fn memory_follows_what_is_written_whatever_its_size() {
    let fixture = Fixture::with_segments(1 << 20, 256);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let limit = fixture.keyspace.used_memory() + (32 << 20);
    fixture.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(9);
    let mut number = 0_i64;
    for (name, value_bytes, count) in [
        ("small", 64, 400_000),
        ("large", 1 << 20, 100),
        ("small", 16, 600_000),
        ("large", 5_000, 10_000),
        ("middle", 2_000, 30_000),
        ("large", 3 << 20, 30),
        ("large", 100_000, 1_000),
        ("large", 5 << 20, 20),
        ("small", 64, 200_000),
    ] {
        let value = vec![b'v'; value_bytes];
        for _ in 0..count {
            number += 1;
            let now = later(number);
            set_with_room(&fixture, &format!("{name}:{number}"), &value, now, &mut random);
            if number % 64 == 0 || value_bytes > 4096 {
                assert_within(&fixture, limit);
            }
        }
        let kept = (number - count..=number)
            .filter(|number| fixture.get(&format!("{name}:{number}"), later(*number)).is_some())
            .count() as u64;
        let kept_bytes = kept * value_bytes as u64;
        println!(
            "{count} {name} of {value_bytes}: {kept} kept, {} keys",
            fixture.keyspace.counts(DB0).keys
        );
        if value_bytes > 1000 {
            assert!(kept_bytes > limit / 2, "{kept_bytes} bytes of {name} values are kept");
        }
    }
    assert_slot_counts_exact(&fixture);
}

#[test]
fn memory_that_deletions_left_serves_any_size_and_costs_no_key() {
    let fixture = Fixture::with_segments(1 << 20, 256);
    let limit = fixture.keyspace.used_memory() + (32 << 20);
    fixture.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(4);
    let mut set = |name: &str, value: &[u8]| {
        for _ in 0..16 {
            match fixture.write(name, NOW, |view, key| view.set(key, value, Expiry::Clear)) {
                Ok(()) => return true,
                Err(need) => {
                    let mut context = SweepContext::new(NOW, &mut random);
                    if fixture
                        .keyspace
                        .reserve(need, fixture.key(name).shard, &mut context)
                        .is_err()
                    {
                        return false;
                    }
                }
            }
        }
        false
    };
    let value = [b'v'; 200];
    let count = (0..).take_while(|number| set(&format!("small:{number}"), &value)).count();
    assert!(count > 100_000, "{count} small values fill it");
    let is_kept = |number: usize| number.is_multiple_of(10);
    for number in (0..count).filter(|&number| !is_kept(number)) {
        assert!(fixture.write(&format!("small:{number}"), NOW, |view, key| view.remove(key)));
    }
    let large = vec![b'l'; 1 << 20];
    let stored = (0..100).take_while(|number| set(&format!("large:{number}"), &large)).count();
    assert!(stored >= 22, "{stored} MiB of values fit beside a tenth of what was there");
    for number in (0..stored).filter(|number| number % 2 == 0) {
        assert!(fixture.write(&format!("large:{number}"), NOW, |view, key| view.remove(key)));
    }
    let more = (0..).take_while(|number| set(&format!("more:{number}"), &value)).count();
    assert!(more > 30_000, "{more} small values fit where large ones were");
    for number in (0..count).filter(|&number| is_kept(number)) {
        assert!(fixture.get(&format!("small:{number}"), NOW).is_some(), "small:{number}");
    }
    assert_within(&fixture, limit);
    assert_eq!(fixture.keyspace.counters().evicted_keys, 0);
}

#[test]
fn overshoot_of_a_transaction_is_given_back_to_the_system() {
    let fixture = Fixture::with_segments(1 << 20, 256);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let limit = fixture.keyspace.used_memory() + (16 << 20);
    fixture.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(8);
    for number in 0..100_000 {
        set_with_room(
            &fixture,
            &format!("small:{number}"),
            &[b's'; 100],
            later(number),
            &mut random,
        );
    }
    let names: Vec<String> = (0..8).map(|number| format!("large:{number}")).collect();
    let keys: Vec<Key<'_>> = names.iter().map(|name| fixture.key(name)).collect();
    let mut guard = fixture.keyspace.lock_keys(&keys);
    guard.begin_atomic();
    for key in &keys {
        guard.write(DB0, later(100_000)).set(key, &vec![b'l'; 1 << 20], Expiry::Clear).unwrap();
    }
    drop(guard);
    assert!(fixture.keyspace.arena().usage().touched_bytes > limit + (4 << 20));
    for number in 0..200 {
        set_with_room(&fixture, &format!("more:{number}"), b"m", later(100_001), &mut random);
    }
    let touched = fixture.keyspace.arena().usage().touched_bytes;
    assert!(touched <= limit + limit / 32, "{touched} bytes of {limit} are touched");
    assert_within(&fixture, limit);
}

#[test]
fn tables_that_were_swapped_and_made_anew_are_told_apart() {
    let fixture = Fixture::with_segments(1 << 20, 256);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let limit = fixture.keyspace.used_memory() + (16 << 20);
    let mut random = Prng::new(3);
    let (small, large) = ([b's'; 100], vec![b'l'; 1 << 20]);
    for round in 0..6 {
        // The tables of database 0 go to 1, and new ones come in their place.
        Access::free(&fixture.keyspace).flush_database(DB1, NOW);
        Access::free(&fixture.keyspace).swap_databases(DB0, DB1, NOW).unwrap();
        fixture.keyspace.set_maxmemory(limit);
        for number in 0..30_000_i64 {
            let name = format!("{round}:{number}");
            set_with_room(&fixture, &name, &small, later(round * 100_000 + number), &mut random);
        }
        for number in 0..10 {
            let name = format!("{round}:large:{number}");
            set_with_room(&fixture, &name, &large, later(round * 100_000 + 50_000), &mut random);
        }
        assert_within(&fixture, limit);
        assert_slot_counts_exact(&fixture);
    }
}

#[test]
fn small_limit_is_filled_with_keys_of_every_size() {
    const LIMIT: u64 = 10 << 20;
    // As many shards as a server with two workers has.
    let fixture = Fixture::with_shards(HeapSource::new(1 << 20, 256), 64);
    fixture.keyspace.set_sink(None);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    fixture.keyspace.set_maxmemory(LIMIT);
    let mut random = Prng::new(1);
    for number in 0..40_000 {
        let value = "v".repeat(1 + random.below(1024) as usize);
        set_with_room(&fixture, &format!("key:{number}"), value.as_bytes(), NOW, &mut random);
    }
    let keys = fixture.keyspace.key_count(DB0);
    println!("{keys} keys, {:?}", fixture.keyspace.arena().usage());
    assert!(keys >= 14_000, "{keys} keys");
    assert_within(&fixture, LIMIT);
}

/// Fills 10 MiB with values of up to 5 KiB, a fifth of which are extents, and returns the least
/// share of the limit that was in use once it was full, in percent.
fn least_use_with_values_of_both_regions(policy: EvictionPolicy) -> u64 {
    const LIMIT: u64 = 10 << 20;
    let fixture = Fixture::with_shards(HeapSource::new(1 << 20, 256), 64);
    fixture.keyspace.set_sink(None);
    fixture.keyspace.set_eviction_policy(policy);
    fixture.keyspace.set_maxmemory(LIMIT);
    let mut random = Prng::new(1);
    let mut least = LIMIT;
    for number in 0..25_000 {
        let value = "v".repeat(1 + random.below(5 << 10) as usize);
        let now = later(number / 50);
        set_with_room(&fixture, &format!("key:{number}"), value.as_bytes(), now, &mut random);
        if number > 8_000 {
            least = least.min(fixture.keyspace.used_memory());
        }
    }
    assert_within(&fixture, LIMIT);
    println!("{policy:?}: {} keys", fixture.keyspace.key_count(DB0));
    least * 100 / LIMIT
}

#[test]
fn values_of_both_regions_never_free_more_than_a_segment_at_once() {
    let least = least_use_with_values_of_both_regions(EvictionPolicy::ALLKEYS_LRU);
    assert!(least >= 86, "{least} % of the limit were in use");
}

#[test]
fn holes_that_change_places_are_no_room() {
    let least = least_use_with_values_of_both_regions(EvictionPolicy::ALLKEYS_RANDOM);
    assert!(least >= 86, "{least} % of the limit were in use");
}

#[test]
fn clearing_the_top_takes_what_reaches_into_it_and_gives_a_segment() {
    let fixture = Fixture::with_segments(1 << 20, 64);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    // None of the blocks ends with a segment.
    let value = "v".repeat(5_000);
    (0..800).for_each(|number| fixture.set(&format!("key:{number}"), &value));
    let touched = fixture.keyspace.arena().usage().touched_bytes;
    let mut random = Prng::new(1);
    let mut context = SweepContext::new(NOW, &mut random);
    let mut evicted_before = 0;
    for round in 0..3 {
        let given_back = fixture.keyspace.shrink_extents(ReclaimBy::Evictions, &mut context);
        let evicted = fixture.keyspace.counters().evicted_keys;
        assert!(given_back >= if round == 0 { 1 } else { 1 << 20 }, "{round}: {given_back}");
        assert!(evicted - evicted_before <= 220, "{evicted} keys went");
        evicted_before = evicted;
    }
    assert!(fixture.keyspace.arena().usage().touched_bytes <= touched - (2 << 20));
}

#[test]
fn value_that_is_appended_to_grows_up_to_the_limit() {
    const PART: usize = 256 << 10;
    let fixture = Fixture::with_segments(1 << 20, 64);
    fixture.set("key:1", &"v".repeat(5_000));
    fixture.set("key:2", &"v".repeat(5_000));
    fixture.set("key:3", &"v".repeat(5_000));
    let room = 16 << 20;
    let limit = fixture.keyspace.used_memory() + room;
    fixture.keyspace.set_maxmemory(limit);
    let mut random = Prng::new(1);
    let suffix = vec![b'v'; PART];
    let append = || {
        fixture
            .write("key:2", NOW, |view, key| view.append(key, &suffix).map(|length| length as u64))
    };
    let mut length = 0;
    loop {
        match append() {
            Ok(grown) => length = grown,
            Err(need) => {
                let mut context = SweepContext::new(NOW, &mut random);
                if fixture.keyspace.reserve(need, fixture.key("key:2").shard, &mut context).is_err()
                {
                    break;
                }
            }
        }
        assert_slot_counts_exact(&fixture);
    }
    assert!(length > room / 100 * 90, "{length} of {room} bytes");
    assert_within(&fixture, limit);
    for name in ["key:1", "key:2", "key:3"] {
        assert!(fixture.get(name, NOW).unwrap().bytes().all(|byte| byte == b'v'), "{name}");
    }
    assert_eq!(fixture.get("key:2", NOW).unwrap().len() as u64, length);
}
