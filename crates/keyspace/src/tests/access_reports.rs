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

fn add_session(fixture: &Fixture) -> Arc<dyn PinMemory> {
    let session: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
    fixture.keyspace.arena().pins().add(1, session.clone());
    session
}

fn filled(policy: EvictionPolicy) -> Fixture {
    let fixture = Fixture::with_segments(1 << 16, 1024);
    fixture.keyspace.set_eviction_policy(policy);
    fixture.keyspace.set_eviction_samples(10);
    for index in 0..KEYS {
        fixture.set_until(&name(index), &"x".repeat(100), later(100_000_000));
        let uses = if index < HOT { 1 } else { 40 };
        let at = later(1_000 + index as i64 * 100);
        (0..uses).for_each(|_| drop(fixture.get(&name(index), at)));
    }
    fixture
}

/// Evicts a tenth of the keys and returns how many of the first tenth are left.
fn hot_left(fixture: &Fixture) -> usize {
    let mut random = Prng::new(5);
    let now = later(1_000_000);
    while fixture.keyspace.counts(DB0).keys > (KEYS - HOT) as u64 {
        fixture.keyspace.set_maxmemory(fixture.keyspace.used_memory() - 200);
        fixture.keyspace.repay(&mut SweepContext::new(now, &mut random)).unwrap();
    }
    (0..HOT).filter(|&index| fixture.get(&name(index), now).is_some()).count()
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
        let fixture = filled(policy);
        let session = add_session(&fixture);
        for index in 0..HOT {
            report(session.words(), AccessReport::new(DB0, &fixture.key(&name(index))));
        }
        let seen = hot_left(&fixture);
        assert!(seen >= HOT * 97 / 100, "{policy:?}: {seen} of {HOT} are left");
        assert_eq!(fixture.keyspace.access_report_count(), HOT as u64);
    }
}

#[test]
fn reports_are_taken_in_only_where_the_policy_asks_for_them() {
    let fixture = Fixture::new();
    let session = add_session(&fixture);
    for (policy, maxmemory, expected) in [
        (EvictionPolicy::ALLKEYS_LRU, 0, 0),
        (EvictionPolicy::NO_EVICTION, 1 << 30, 0),
        (EvictionPolicy::ALLKEYS_RANDOM, 1 << 30, 0),
        (EvictionPolicy::VOLATILE_TTL, 1 << 30, 0),
        (EvictionPolicy::VOLATILE_LFU, 1 << 30, 5),
        (EvictionPolicy::ALLKEYS_LRU, 1 << 30, 6),
    ] {
        fixture.keyspace.set_eviction_policy(policy);
        fixture.keyspace.set_maxmemory(maxmemory);
        report(session.words(), AccessReport::new(DB1, &fixture.key("key")));
        fixture.keyspace.take_access_reports(NOW);
        assert_eq!(fixture.keyspace.access_report_count(), expected, "{policy:?}");
    }
}

#[test]
fn reports_of_many_sessions_come_a_bounded_number_at_a_time() {
    let fixture = Fixture::new();
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LFU);
    fixture.keyspace.set_maxmemory(1 << 30);
    let sessions: Vec<_> = (0..5).map(|_| add_session(&fixture)).collect();
    let access = AccessReport::new(DB0, &fixture.key("key"));
    for session in &sessions {
        (0..REPORT_WORDS).for_each(|_| report(session.words(), access));
    }
    for expected in [2, 4, 5, 5] {
        fixture.keyspace.take_access_reports(NOW);
        assert_eq!(fixture.keyspace.access_report_count(), expected * REPORT_WORDS as u64);
    }
}

#[test]
fn session_that_ends_has_its_own_reports_taken_in_alone() {
    let fixture = Fixture::new();
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    let sessions = [(); 4].map(|()| add_session(&fixture));
    let access = AccessReport::new(DB0, &fixture.key("key"));
    sessions.iter().for_each(|session| report(session.words(), access));
    fixture.keyspace.end_session(&sessions[0], NOW);
    assert_eq!(fixture.keyspace.access_report_count(), 0, "without a limit of memory nobody asks");
    fixture.keyspace.set_maxmemory(1 << 30);
    fixture.keyspace.end_session(&sessions[1], NOW);
    assert_eq!(fixture.keyspace.access_report_count(), 1);
    fixture.keyspace.hold_access_report_turn(|| fixture.keyspace.end_session(&sessions[2], NOW));
    assert_eq!(fixture.keyspace.access_report_count(), 2, "though another thread takes reports in");
    fixture.keyspace.take_access_reports(NOW);
    assert_eq!(
        fixture.keyspace.access_report_count(),
        3,
        "the session that goes on is asked later"
    );
}

#[test]
fn hostile_reports_change_nothing_but_marks() {
    let fixture = filled(EvictionPolicy::ALLKEYS_LFU);
    fixture.keyspace.set_maxmemory(1 << 30);
    let digest = || Access::free(&fixture.keyspace).digest();
    let before = digest();
    let (session, mut random) = (add_session(&fixture), Prng::new(9));
    for round in 0..100 {
        // Half of them name a shard that there is.
        for word in session.words() {
            word.store(random.next() >> (9 * random.below(2)), Ordering::Relaxed);
        }
        fixture.keyspace.take_access_reports(later(round));
    }
    assert!(fixture.keyspace.access_report_count() > 40 * REPORT_WORDS as u64);
    assert_eq!(digest(), before);
}
