//! What the policy is for, on made-up workloads of fixed seeds: its hit rates, beside those of the
//! other policies, and what it promises of its memory and its estimates.

use base::prng::Prng;
use policy::simulation::workloads::{Made, Workload};
use policy::simulation::{
    AdaptiveCache, Attachment, Cache, POLICIES, Policy, Request, Setup, replay,
};
use policy::{Advice, Objective};

fn made(workload: &str, seed: u64) -> Made {
    Workload::of(workload).expect("it is a workload").make(seed)
}

fn setup(made: &Made) -> Setup {
    let (footprint, keys) = (made.trace.footprint_bytes(), made.trace.keys_used());
    Setup {
        capacity_bytes: made.capacity_bytes,
        key_count: made.trace.key_count,
        key_bytes: footprint / u64::from(keys),
        seed: 1,
    }
}

/// Returns the hit rate of `cache` over the second half of the trace, in percent.
fn hit_rate(made: &Made, cache: &mut dyn Cache) -> f64 {
    replay(&made.trace, cache, made.trace.requests.len() / 2).hit_rate() * 100.0
}

fn hit_rate_of(made: &Made, policy: &str) -> f64 {
    let policy = Policy::of(policy).expect("it is a policy");
    hit_rate(made, &mut *policy.cache(&setup(made)))
}

#[test]
fn seed_workload_has_83_of_100_hits_where_lru_has_68() {
    for seed in [47, 1, 2] {
        let made = made("seed", seed);
        let lru = hit_rate_of(&made, "lru");
        assert!((67.0..70.5).contains(&lru), "seed {seed}: LRU {lru}");
        for policy in ["adaptive", "adaptive-64"] {
            let found = hit_rate_of(&made, policy);
            assert!(found >= 83.0, "seed {seed}: {policy} {found}");
        }
    }
}

/// A peer that is simulated wrongly would make the adaptive policy look good.
#[test]
fn other_policies_have_the_hits_that_are_known_of_them() {
    const KNOWN: [(&str, f64); 8] = [
        ("lru", 67.8),
        ("redis-lfu", 76.6),
        ("slru", 79.1),
        ("arc", 76.8),
        ("s3-fifo", 79.9),
        ("sieve", 80.9),
        ("gdsf", 81.4),
        ("w-tinylfu", 80.9),
    ];
    let made = made("seed", 47);
    for (policy, known) in KNOWN {
        let found = hit_rate_of(&made, policy);
        assert!((found - known).abs() <= 0.5, "{policy} {found}, not {known}");
    }
}

#[test]
fn no_other_policy_is_clearly_better_on_any_of_these_workloads() {
    for workload in ["seed", "seed-512k", "births", "shift-fast", "shift-abrupt"] {
        let made = made(workload, 47);
        let others = POLICIES.iter().filter(|policy| !policy.name.starts_with("adaptive"));
        let others = others.map(|policy| (hit_rate_of(&made, policy.name), policy.name));
        let (best, name) = others.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are others");
        for policy in ["adaptive", "adaptive-64"] {
            let found = hit_rate_of(&made, policy);
            assert!(found > best - 1.5, "{workload}: {policy} {found}, {name} {best}");
        }
    }
}

#[test]
fn objective_of_bytes_finds_more_bytes_than_that_of_hits() {
    let made = made("seed", 47);
    let found = [Objective::Hits, Objective::Bytes].map(|objective| {
        let attachment = Attachment { objective, ..Attachment::default() };
        let cache = &mut AdaptiveCache::new(&setup(&made), attachment);
        replay(&made.trace, cache, made.trace.requests.len() / 2)
    });
    assert!(found[1].byte_hit_rate() > found[0].byte_hit_rate());
    assert!(found[1].hit_rate() < found[0].hit_rate());
}

#[test]
fn one_seed_gives_one_result() {
    let made = made("shift-fast", 3);
    for policy in ["adaptive", "adaptive-64"] {
        let outcome = |seed| {
            let setup = Setup { seed, ..setup(&made) };
            let cache = &mut *Policy::of(policy).expect("it is a policy").cache(&setup);
            (replay(&made.trace, cache, 0), cache.policy_bytes())
        };
        assert_eq!(outcome(5), outcome(5));
        assert_ne!(outcome(5).0, outcome(6).0, "the seed matters");
    }
}

/// Returns what the policy estimated at the end of a replay with `capacity_bytes`, and the hit
/// rates of the second half that there were, all in percent.
fn estimated_and_real(made: &Made, capacity_bytes: u64, shard_count: u32) -> (Advice, [f64; 6]) {
    let attachment = Attachment { shard_count, ..Attachment::default() };
    let of_size = |capacity_bytes| Setup { capacity_bytes, ..setup(made) };
    let adaptive = |capacity_bytes| {
        let cache = &mut AdaptiveCache::new(&of_size(capacity_bytes), attachment);
        (hit_rate(made, cache), cache.advice())
    };
    let lru = |capacity_bytes| {
        let policy = Policy::of("lru").expect("it is a policy");
        hit_rate(made, &mut *policy.cache(&of_size(capacity_bytes)))
    };
    let (now, advice) = adaptive(capacity_bytes);
    let (half, double) = (capacity_bytes / 2, capacity_bytes * 2);
    let real =
        [now, adaptive(half).0, adaptive(double).0, lru(capacity_bytes), lru(half), lru(double)];
    (advice.expect("enough has been seen"), real)
}

#[test]
fn estimates_for_other_memory_and_for_lru_are_near_what_simulations_find() {
    for (workload, shard_count) in [("seed", 1), ("seed", 64), ("shift-fast", 1)] {
        let made = made(workload, 47);
        let (advice, real) = estimated_and_real(&made, made.capacity_bytes, shard_count);
        let estimated = [
            advice.now,
            advice.half_memory,
            advice.double_memory,
            advice.lru,
            advice.lru_half_memory,
            advice.lru_double_memory,
        ];
        for (estimated, real) in estimated.iter().zip(real) {
            let error = estimated * 100.0 - real;
            assert!(error.abs() < 5.0, "{workload}: {advice:?}, not {real}");
        }
    }
}

#[test]
fn memory_stays_within_its_share_whatever_happens() {
    let random = &mut Prng::new(9);
    for (bytes_max, capacity_bytes) in [(1, 1 << 20), (100, 4 << 20), (5_000, 64 << 20)] {
        let key_count = 400_000;
        let setup = Setup { capacity_bytes, key_count, key_bytes: bytes_max / 2 + 1, seed: 4 };
        let attachment = Attachment { shard_count: 8, ..Attachment::default() };
        let cache = &mut AdaptiveCache::new(&setup, attachment);
        for step in 0..300_000 {
            let key = random.below(u64::from(key_count)) as u32;
            let bytes = random.below(bytes_max) as u32 + 1;
            match random.below(10) {
                0 => cache.delete(key),
                _ if step % 100_000 == 99_999 => cache.clear(),
                _ => _ = cache.request(Request { key, bytes, second: 0 }),
            }
            if step % 1000 == 0 {
                let (policy, keys) = (cache.policy_bytes(), cache.key_count() as u64);
                let most = capacity_bytes / 64 * 3 + (1 << 19) + keys * 4;
                assert!(policy <= most, "{policy} of {capacity_bytes}, {keys} keys");
                assert!(cache.bytes_used() <= capacity_bytes);
            }
        }
    }
}

#[test]
fn key_larger_than_the_cache_is_not_kept_and_evicts_nothing() {
    let setup = Setup { capacity_bytes: 10 << 20, key_count: 100, key_bytes: 1000, seed: 1 };
    let cache = &mut AdaptiveCache::new(&setup, Attachment::default());
    for key in 1..100 {
        cache.request(Request { key, bytes: 1000, second: 0 });
    }
    for _ in 0..10 {
        assert!(!cache.request(Request { key: 0, bytes: 11 << 20, second: 0 }));
    }
    assert_eq!(cache.key_count(), 99);
}

#[test]
fn what_was_deleted_is_missed_and_known_again() {
    let setup = Setup { capacity_bytes: 10 << 20, key_count: 10, key_bytes: 1000, seed: 1 };
    let cache = &mut AdaptiveCache::new(&setup, Attachment::default());
    let request = Request { key: 3, bytes: 1000, second: 0 };
    assert!(!cache.request(request));
    assert!(cache.request(request));
    cache.delete(3);
    cache.delete(3);
    assert_eq!((cache.key_count(), cache.bytes_used()), (0, 0));
    assert!(!cache.request(request));
    assert!(cache.request(request));
}
