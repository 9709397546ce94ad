//! The adaptive policy in a keyspace: what it keeps is what its simulation keeps, its memory is
//! counted, and it may be chosen and left at any time.

use base::ShardIndex;
use base::prng::Prng;
use collections::End;
use policy::simulation::workloads::Workload;
use policy::simulation::{AdaptiveCache, Attachment, Cache, Request, Setup, Trace, replay};

use super::accounting::{assert_within, set_with_room_until};
use super::*;
use crate::eviction::Victims;
use crate::{CacheObjective, EvictionPolicy, Expiry, SweepContext, WhenAbsent};

/// The seed workload is made smaller by this factor, in the sizes of its values.
const SCALE: u32 = 512;
const LIMIT: u64 = limit(SCALE);

const fn limit(scale: u32) -> u64 {
    (2 << 30) / scale as u64
}

fn workload(name: &str, scale: u32) -> Trace {
    let mut trace = Workload::of(name).expect("there is such a workload").make(47).trace;
    trace.requests.iter_mut().for_each(|request| request.bytes /= scale);
    trace
}

/// Serves a trace by a keyspace whose memory is limited.
struct Served {
    fixture: Fixture,
    random: Prng,
    number: i64,
    /// The bytes of all keys from time to time, once memory is full.
    key_bytes: Vec<u64>,
}

impl Served {
    fn new(policy: EvictionPolicy, limit: u64) -> Served {
        Served::with_shards(policy, limit, 16)
    }

    fn with_shards(policy: EvictionPolicy, limit: u64, shard_count: u32) -> Served {
        let fixture = Fixture::with_shards(arena::HeapSource::new(1 << 18, 1024), shard_count);
        fixture.keyspace.set_sink(None);
        fixture.keyspace.set_eviction_policy(policy);
        fixture.keyspace.set_maxmemory(limit);
        Served { fixture, random: Prng::new(5), number: 0, key_bytes: Vec::new() }
    }

    /// Returns the bytes of all keys in the second half, on average.
    fn key_bytes_mean(&self) -> u64 {
        self.key_bytes.iter().sum::<u64>() / self.key_bytes.len() as u64
    }

    /// Returns the bytes of all keys that are there.
    fn key_bytes(&self) -> u64 {
        let keyspace = &self.fixture.keyspace;
        let of = |index| {
            let mut guard = keyspace.lock(index);
            let shard = guard.shard_mut(index);
            shard.databases().map(|(_, part)| part.slots.total().bytes).sum::<u64>()
        };
        keyspace.shard_indexes().map(of).sum()
    }
}

impl Cache for Served {
    fn request(&mut self, Request { key, bytes, .. }: Request) -> bool {
        self.number += 1;
        if self.number % 5_000 == 0 && self.number >= 50_000 {
            self.key_bytes.push(self.key_bytes());
        }
        let (name, now) = (format!("key:{key}"), later(self.number / 10));
        if self.fixture.get(&name, now).is_some() {
            return true;
        }
        let value = vec![b'v'; bytes as usize];
        let set =
            set_with_room_until(&self.fixture, &name, &value, Expiry::Clear, now, &mut self.random);
        let keyspace = &self.fixture.keyspace;
        set.unwrap_or_else(|need| {
            panic!("{:?} at {}: {need:?}", keyspace.eviction_policy(), self.number)
        });
        false
    }
}

/// Returns the hit rate of the second half in percent, and the cache.
fn served(policy: EvictionPolicy, trace: &Trace, limit: u64) -> (f64, Served) {
    served_by(Served::new(policy, limit), trace, limit)
}

fn served_by(mut served: Served, trace: &Trace, limit: u64) -> (f64, Served) {
    let outcome = replay(trace, &mut served, trace.requests.len() / 2);
    assert_within(&served.fixture, limit);
    (outcome.hit_rate() * 100.0, served)
}

/// Returns the hit rate of the policy's simulation in percent, in as many shards, where keys take
/// `overhead` bytes beside their values.
fn simulated(trace: &Trace, key_bytes: u64, overhead: u32, shard_count: u32) -> f64 {
    let mut trace = trace.clone();
    trace.requests.iter_mut().for_each(|request| request.bytes += overhead);
    let setup =
        Setup { capacity_bytes: key_bytes, key_count: trace.key_count, key_bytes: 1, seed: 11 };
    let attachment = Attachment { shard_count, ..Attachment::default() };
    let mut cache = AdaptiveCache::new(&setup, attachment);
    replay(&trace, &mut cache, trace.requests.len() / 2).hit_rate() * 100.0
}

#[test]
fn adaptive_policy_keeps_what_its_simulation_keeps() {
    // Values in slab pages, and values of extents; the last with the few keys in each shard that a
    // server has of values of 512 KiB.
    for (name, scale, overhead, shards, apart_max) in [
        ("seed", SCALE, 40, 16, 4.0),
        ("seed", 32, 120, 16, 4.0),
        ("seed-512k", 32, 120, 16, 1.0),
        ("seed-512k", 32, 120, 64, 1.0),
    ] {
        let (trace, limit) = (workload(name, scale), limit(scale));
        let [(lru, _), (adaptive, cache)] = [EvictionPolicy::ALLKEYS_LRU, EvictionPolicy::ADAPTIVE]
            .map(|policy| served_by(Served::with_shards(policy, limit, shards), &trace, limit));
        let share = cache.key_bytes_mean() as f64 / limit as f64;
        let simulated = simulated(&trace, cache.key_bytes_mean(), overhead, shards);
        let what = format!(
            "{name} 1/{scale} in {shards} shards: LRU {lru:.2}, adaptive {adaptive:.2}, \
             simulated {simulated:.2}, {share:.3} of the limit"
        );
        println!("{what}");
        assert!(adaptive > lru + 9.0, "{what}");
        assert!((adaptive - simulated).abs() < apart_max, "{what}");
    }
}

#[test]
fn policy_memory_is_charged_bounded_and_given_back() {
    let trace = workload("seed", SCALE);
    let (_, Served { fixture, .. }) = served(EvictionPolicy::ADAPTIVE, &trace, LIMIT);
    let keyspace = &fixture.keyspace;
    let before = keyspace.private_bytes();
    let count = keyspace.counts(DB0).keys;
    let reported = keyspace.cache_report().adaptive.expect("the policy is in force").policy_bytes;
    keyspace.set_eviction_policy(EvictionPolicy::VOLATILE_ADAPTIVE);
    keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_RANDOM);
    let took = before - keyspace.private_bytes();
    println!("{took} bytes of {LIMIT}, for {count} keys");
    // A 96th of the keys for ghosts, windows, and what shadows take of a cache as small as this.
    assert!(took > 0 && took < LIMIT / 96 + LIMIT / 50 + (128 << 10), "{took} bytes");
    assert!(took.abs_diff(reported) < 4096, "{took} bytes are charged, {reported} there");
    assert_eq!(keyspace.counts(DB0).keys, count, "no key goes with a policy");
    keyspace.set_eviction_policy(EvictionPolicy::ADAPTIVE);
    keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_RANDOM);
    assert_eq!(before - keyspace.private_bytes(), took);
}

#[test]
fn entry_that_ranks_as_plain_has_the_mark_and_bytes_of_any() {
    let Served { fixture, .. } = Served::new(EvictionPolicy::ADAPTIVE, LIMIT);
    let found = |name: &str| {
        let key = fixture.key(name);
        let guard = fixture.keyspace.lock(key.shard);
        let object = guard.read(DB0, NOW).peek(&key).expect("it is there");
        let found = object.plain_and_counted();
        assert!(found.is_none_or(|(_, bytes)| bytes == object.memory_bytes()), "{name}: {found:?}");
        assert!(found.is_none_or(|(word, _)| word == object.mark().word), "{name}: {found:?}");
        found.is_some()
    };
    for bytes in [0, 1, 7, 64, 900, 1023, 1024, 5_000, 100_000] {
        set_bytes(&fixture, "string", bytes);
        assert_eq!(found("string"), bytes < 1024, "{bytes}");
    }
    let at = Expiry::At(later(1_000));
    set_with_room_until(&fixture, "timed", b"value", at, NOW, &mut Prng::new(1)).unwrap();
    assert!(!found("timed"));
    let cost = crate::Cost::of(9).expect("it is in range");
    let clear = Expiry::Clear;
    fixture.write("dear", NOW, |view, key| view.set_costed(key, b"value", clear, cost)).unwrap();
    assert!(!found("dear"));
    for (elements, is_plain) in [(1, true), (1_000, false)] {
        let element = [b'e'; 20].as_slice();
        fixture.write("list", NOW, |view, key| {
            let many = std::iter::repeat_n(element, elements);
            view.push(key, End::Tail, many, WhenAbsent::Create).unwrap();
        });
        assert_eq!(found("list"), is_plain, "a list of {elements}");
    }
}

#[test]
fn marks_survive_another_policy_and_another_objective() {
    let Served { fixture, .. } = Served::new(EvictionPolicy::ADAPTIVE, LIMIT);
    let frequency = |name: &str| {
        let key = fixture.key(name);
        let guard = fixture.keyspace.lock(key.shard);
        let view = guard.read(DB0, NOW);
        view.access_counter(&key, &view.inspect(&key).expect("it is there"))
    };
    fixture.set("a", "value");
    let once = frequency("a").expect("the policy knows it");
    (0..100).for_each(|_| assert!(fixture.get("a", NOW).is_some()));
    let often = frequency("a").expect("the policy knows it");
    assert!((40..60).contains(&(often - once)), "100 uses are 6.7 octaves: {once} to {often}");
    fixture.keyspace.set_cache_objective(CacheObjective::Bytes);
    assert_eq!(frequency("a"), Some(often));
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    assert_eq!(frequency("a"), None);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ADAPTIVE);
    assert_eq!(frequency("a"), Some(often));
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    fixture.get("a", NOW);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ADAPTIVE);
    assert_eq!(frequency("a"), Some(once), "a mark of another form is that of a new key");
}

#[test]
fn keys_that_were_there_before_the_policy_go_like_others() {
    let trace = workload("seed", SCALE);
    let mut served = Served::new(EvictionPolicy::ALLKEYS_LRU, LIMIT);
    let (first, rest) = trace.requests.split_at(trace.requests.len() / 4);
    for request in first {
        served.request(*request);
    }
    served.fixture.keyspace.set_eviction_policy(EvictionPolicy::ADAPTIVE);
    let rest = Trace { requests: rest.to_vec(), ..trace };
    let outcome = replay(&rest, &mut served, rest.requests.len() / 2);
    assert!(outcome.hit_rate() > 0.64, "{:.4}", outcome.hit_rate());
    let keyspace = &served.fixture.keyspace;
    for database in keyspace.databases() {
        crate::Access::free(keyspace).flush_database(database, NOW);
    }
    assert_eq!(served.key_bytes(), 0);
}

#[test]
fn report_tells_what_other_memory_would_bring_and_where_memory_is() {
    let trace = workload("seed", SCALE);
    let (hit_percent, Served { fixture, .. }) = served(EvictionPolicy::ADAPTIVE, &trace, LIMIT);
    let keyspace = &fixture.keyspace;
    let report = keyspace.cache_report().adaptive.expect("the policy is in force");
    let advice = report.advice.expect("it has seen enough");
    println!("{hit_percent:.2} {report:?}");
    assert!((advice.now * 100.0 - hit_percent).abs() < 5.0, "{advice:?}");
    assert!(advice.half_memory < advice.now && advice.now < advice.double_memory, "{advice:?}");
    assert!(advice.lru < advice.now, "{advice:?}");
    assert!(report.ghost_hits > 1_000 && report.policy_bytes > 0, "{report:?}");
    let classes = keyspace.size_classes(&mut Prng::new(3));
    let keys: u64 = classes.iter().map(|class| class.keys).sum();
    let bytes: u64 = classes.iter().map(|class| class.bytes).sum();
    assert!(keys.abs_diff(keyspace.counts(DB0).keys) < 10, "{classes:?}");
    assert!(bytes.abs_diff(report.key_bytes) < report.key_bytes / 5, "{classes:?}");
    keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    assert!(keyspace.cache_report().adaptive.is_none());
}

#[test]
fn objective_bytes_keeps_large_keys_too() {
    let trace = workload("seed", SCALE);
    let bytes_of = |objective| {
        let mut served = Served::new(EvictionPolicy::ADAPTIVE, LIMIT);
        served.fixture.keyspace.set_cache_objective(objective);
        replay(&trace, &mut served, trace.requests.len() / 2)
    };
    let [hits, bytes] = [CacheObjective::Hits, CacheObjective::Bytes].map(bytes_of);
    println!("{hits:?} {bytes:?}");
    assert!(hits.hit_rate() > bytes.hit_rate());
    assert!(bytes.byte_hit_rate() > hits.byte_hit_rate());
}

/// Returns a shard under the adaptive policy with `count` keys that were used a few times.
fn shard_of_used_keys(count: usize) -> Fixture {
    let fixture = Fixture::with_shards(arena::HeapSource::new(1 << 18, 1024), 1);
    fixture.keyspace.set_eviction_policy(EvictionPolicy::ADAPTIVE);
    for index in 0..count {
        let name = format!("used:{index}");
        set_bytes(&fixture, &name, 100);
        (0..3).for_each(|_| assert!(fixture.get(&name, NOW).is_some()));
    }
    fixture
}

fn set_bytes(fixture: &Fixture, name: &str, bytes: usize) {
    let value = vec![b'v'; bytes];
    fixture.write(name, NOW, |view, key| view.set(key, &value, Expiry::Clear)).unwrap();
}

#[test]
fn key_that_has_left_the_window_goes_while_those_that_came_after_it_stay() {
    for number in 0..64 {
        let fixture = shard_of_used_keys(1000);
        // The worst of all, and a few that come after it and are new when it is not any more.
        let large = format!("large:{number}");
        set_bytes(&fixture, &large, 1500);
        (0..3).for_each(|index| set_bytes(&fixture, &format!("new:{index}"), 100));
        let mut random = Prng::new(number);
        for _ in 0..4 {
            let context = &mut SweepContext::new(NOW, &mut random);
            fixture.keyspace.evict_from(ShardIndex(0), 1, Victims::Any, context);
        }
        assert!(fixture.get(&large, NOW).is_none(), "{large} is spared");
    }
}

#[test]
fn key_that_has_just_come_stays_though_it_is_worth_least() {
    for number in 0..16 {
        let fixture = shard_of_used_keys(500);
        set_bytes(&fixture, "new", 300);
        let mut random = Prng::new(number);
        // Nearly all keys are drawn meanwhile.
        for _ in 0..4 {
            let context = &mut SweepContext::new(NOW, &mut random);
            fixture.keyspace.evict_from(ShardIndex(0), u64::MAX, Victims::Any, context);
        }
        assert!(fixture.keyspace.counts(DB0).keys < 450, "others have gone");
        assert!(fixture.get("new", NOW).is_some(), "it is not spared");
    }
}

#[test]
fn keys_of_before_the_policy_go_before_those_that_are_used() {
    let fixture = Fixture::with_shards(arena::HeapSource::new(1 << 18, 1024), 1);
    let keyspace = &fixture.keyspace;
    keyspace.set_eviction_policy(EvictionPolicy::ALLKEYS_LRU);
    (0..1000).for_each(|index| set_bytes(&fixture, &format!("before:{index}"), 100));
    keyspace.set_eviction_policy(EvictionPolicy::ADAPTIVE);
    // Two windows come after the keys that are used.
    for index in 0..400 {
        let name = format!("used:{index}");
        set_bytes(&fixture, &name, 100);
        (0..5).for_each(|_| assert!(fixture.get(&name, NOW).is_some()));
    }
    let mut random = Prng::new(7);
    while keyspace.counts(DB0).keys > 1300 {
        evicted_bytes(&fixture, 1, &mut random);
    }
    let is_there = |index: &usize| fixture.get(&format!("before:{index}"), NOW).is_some();
    let kept = (0..1000).filter(is_there).count();
    assert!(kept < 920, "of 100 keys that went {} were used", kept - 900);
}

/// Deletes those of the keys that are there.
fn delete(fixture: &Fixture, names: impl Iterator<Item = String>) {
    for name in names {
        fixture.write(&name, NOW, |view, key| view.remove(key));
    }
}

fn evicted_bytes(fixture: &Fixture, goal: u64, random: &mut Prng) -> u64 {
    let context = &mut SweepContext::new(NOW, random);
    fixture.keyspace.evict_from(ShardIndex(0), goal, Victims::Any, context).bytes()
}

#[test]
fn goal_is_met_though_all_keys_that_leave_the_window_were_deleted() {
    for number in 0..16 {
        let fixture = shard_of_used_keys(3000);
        let names = || (0..60).map(|index| format!("deleted:{index}"));
        names().for_each(|name| set_bytes(&fixture, &name, 100));
        delete(&fixture, names());
        let freed = evicted_bytes(&fixture, 1000, &mut Prng::new(number));
        assert!(freed >= 1000, "{freed} bytes");
    }
}

#[test]
fn goal_is_met_though_all_candidates_were_deleted() {
    for number in 0..16 {
        let (fixture, random) = (shard_of_used_keys(1000), &mut Prng::new(number));
        let names = || (0..1000).map(|index| format!("deleted:{index}"));
        names().for_each(|name| set_bytes(&fixture, &name, 100));
        // Of these, the worst of all, the shard remembers more than go.
        (0..20).for_each(|_| assert!(evicted_bytes(&fixture, 1, random) > 0));
        delete(&fixture, names());
        assert!(evicted_bytes(&fixture, 1, random) > 0, "there are others");
    }
}
