//! Accesses that readers in other processes report: the keys stay; nonsense does no harm.

use std::sync::atomic::Ordering;

use arena::access_reports::{AccessReport, REPORT_WORDS};
use arena::pins::{HeapPins, PinMemory, report};
use base::prng::Prng;

use super::*;
use crate::{Access, EvictionPolicy, SweepContext};

/// Keys of which the first tenth were used least and longest ago, as the server saw it.
const KEYS: usize = 4_000;
const HOT: usize = KEYS / 10;

fn name(index: usize) -> String {
    format!("key:{index}")
}

fn add_session(world: &World) -> Arc<dyn PinMemory> {
    let session: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
    world.keyspace.arena().pins().add(1, session.clone());
    session
}

fn filled(policy: EvictionPolicy) -> World {
    let world = World::with_segments(1 << 16, 1024);
    world.keyspace.set_eviction_policy(policy);
    world.keyspace.set_eviction_samples(10);
    for index in 0..KEYS {
        world.set_until(&name(index), &"x".repeat(100), later(100_000_000));
        let uses = if index < HOT { 1 } else { 40 };
        let at = later(1_000 + index as i64 * 100);
        (0..uses).for_each(|_| drop(world.get(&name(index), at)));
    }
    world
}

/// Evicts a tenth of the keys and returns how many of the first tenth are left.
fn hot_left(world: &World) -> usize {
    let mut random = Prng::new(5);
    let now = later(1_000_000);
    while world.keyspace.counts(DB0).keys > (KEYS - HOT) as u64 {
        world.keyspace.set_maxmemory(world.keyspace.used_memory() - 200);
        world.keyspace.repay(&mut SweepContext::new(now, &mut random)).unwrap();
    }
    (0..HOT).filter(|&index| world.get(&name(index), now).is_some()).count()
}

#[test]
fn keys_that_only_readers_elsewhere_use_stay() {
    for policy in [
        EvictionPolicy::ALLKEYS_LRU,
        EvictionPolicy::ALLKEYS_LFU,
        EvictionPolicy::VOLATILE_LRU,
        EvictionPolicy::VOLATILE_LFU,
    ] {
        let unseen = hot_left(&filled(policy));
        assert!(unseen < HOT / 2, "{policy:?}: {unseen} of {HOT} are left unreported");
        let world = filled(policy);
        let session = add_session(&world);
        for index in 0..HOT {
            report(session.words(), AccessReport::new(DB0, &world.key(&name(index))));
        }
        let seen = hot_left(&world);
        assert!(seen >= HOT * 97 / 100, "{policy:?}: {seen} of {HOT} are left");
        assert_eq!(world.keyspace.touch_count(), HOT as u64);
    }
}

#[test]
fn touches_are_taken_in_only_where_the_policy_asks_for_them() {
    let world = World::new();
    let session = add_session(&world);
    for (policy, maxmemory, expected) in [
        (EvictionPolicy::ALLKEYS_LRU, 0, 0),
        (EvictionPolicy::NO_EVICTION, 1 << 30, 0),
        (EvictionPolicy::ALLKEYS_RANDOM, 1 << 30, 0),
        (EvictionPolicy::VOLATILE_TTL, 1 << 30, 0),
        (EvictionPolicy::VOLATILE_LFU, 1 << 30, 5),
        (EvictionPolicy::ALLKEYS_LRU, 1 << 30, 6),
    ] {
        world.keyspace.set_eviction_policy(policy);
        world.keyspace.set_maxmemory(maxmemory);
        report(session.words(), AccessReport::new(DB1, &world.key("key")));
        world.keyspace.take_access_reports(NOW);
        assert_eq!(world.keyspace.touch_count(), expected, "{policy:?}");
    }
}

#[test]
fn touches_of_many_sessions_come_a_bounded_number_at_a_time() {
    let world = World::new();
    world.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LFU);
    world.keyspace.set_maxmemory(1 << 30);
    let sessions: Vec<_> = (0..5).map(|_| add_session(&world)).collect();
    let touch = AccessReport::new(DB0, &world.key("key"));
    for session in &sessions {
        (0..REPORT_WORDS).for_each(|_| report(session.words(), touch));
    }
    for expected in [2, 4, 5, 5] {
        world.keyspace.take_access_reports(NOW);
        assert_eq!(world.keyspace.touch_count(), expected * REPORT_WORDS as u64);
    }
}

#[test]
fn session_that_ends_has_its_own_touches_taken_in_alone() {
    let world = World::new();
    world.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let sessions = [(); 4].map(|()| add_session(&world));
    let touch = AccessReport::new(DB0, &world.key("key"));
    sessions.iter().for_each(|session| report(session.words(), touch));
    world.keyspace.end_session(&sessions[0], NOW);
    assert_eq!(world.keyspace.touch_count(), 0, "without a limit of memory nobody asks");
    world.keyspace.set_maxmemory(1 << 30);
    world.keyspace.end_session(&sessions[1], NOW);
    assert_eq!(world.keyspace.touch_count(), 1);
    world.keyspace.hold_touch_turn(|| world.keyspace.end_session(&sessions[2], NOW));
    assert_eq!(world.keyspace.touch_count(), 2, "though another thread takes touches in");
    world.keyspace.take_access_reports(NOW);
    assert_eq!(world.keyspace.touch_count(), 3, "the session that goes on is asked later");
}

#[test]
fn hostile_touches_change_nothing_but_marks() {
    let world = filled(EvictionPolicy::ALLKEYS_LFU);
    world.keyspace.set_maxmemory(1 << 30);
    let digest = || Access::free(&world.keyspace).digest();
    let before = digest();
    let (session, mut random) = (add_session(&world), Prng::new(9));
    for round in 0..100 {
        // Half of them name a shard that there is.
        for word in session.words() {
            word.store(random.next() >> (9 * random.below(2)), Ordering::Relaxed);
        }
        world.keyspace.take_access_reports(later(round));
    }
    assert!(world.keyspace.touch_count() > 40 * REPORT_WORDS as u64);
    assert_eq!(digest(), before);
}
