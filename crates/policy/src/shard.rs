//! The policy of one shard: what the engine calls under the shard's lock.

use std::sync::Arc;

use crate::ghosts::{BYTES_PER_GHOST, GhostBucket, Ghosts};
use crate::mark::{FREQUENT_SHARE, Mark, Tick};
use crate::scatter::Scatter;
use crate::shadows::{Event, Sample};
use crate::shared::{Happened, Known, Passed, Shared};
use crate::value::{Cost, Value};
use crate::window::{Newcomer, Window};

/// How many keys a choice should look at: with 8 there are 0.2 points fewer hits, and with 32 no
/// more (`bench/results/2026-11-23-172321-cache-sim.json`).
pub const SAMPLES: u32 = 16;

/// How many samples a shard keeps while others hand over theirs; further ones are lost.
const SAMPLES_KEPT: usize = 16;
/// How many misses are taken to be answered by an insertion yet.
const MISSES_MAX: u32 = 1024;
/// How many accesses that are reported at once count in a mark: each is computed.
const TIMES_MAX: u32 = 64;
/// Ghosts for each key of the shard at most.
const GHOSTS_PER_KEY: u64 = 4;
/// What ghosts take at most: one in so many of the bytes of the shard's keys.
const GHOSTS_MEMORY_SHARE: u64 = 96;

/// What each access reads and writes: one line of the cache.
#[derive(Debug)]
#[repr(align(64))]
struct Accesses {
    known: Known,
    /// How many more lookups and writes pass until the shard asks again. They count down, so that
    /// it takes one comparison with a constant to know that none is left.
    left: i32,
    /// As [`Passed::writes`].
    writes: u32,
    /// After how many accesses of frequent keys one counts.
    frequent_left: u32,
    scatter: Scatter,
    /// The state of the generator that counters are rounded with.
    random: u64,
}

const _: () = assert!(size_of::<Accesses>() == 64);

/// The policy of one shard.
#[derive(Debug)]
pub struct ShardPolicy {
    accesses: Accesses,
    shared: Arc<Shared>,
    happened: Happened,
    /// Misses that no insertion has followed: one after a miss is no access of its own.
    misses: u32,
    keys: u64,
    bytes: u64,
    ghosts: Ghosts,
    window: Window,
    samples: Vec<Sample>,
    /// Samples have been handed over since [`ShardPolicy::take_handed_over`].
    has_handed_over: bool,
}

/// A key that may be evicted.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub mark: Mark,
    /// What its eviction frees.
    pub bytes: u64,
    pub cost: Cost,
}

impl ShardPolicy {
    /// Returns the policy of a shard without keys. `seed` is a random number.
    pub fn new(shared: Arc<Shared>, seed: u64) -> ShardPolicy {
        let known = shared.settle(Passed::default(), Happened::default());
        let accesses = Accesses {
            left: known.settle_accesses,
            known,
            writes: 0,
            frequent_left: FREQUENT_SHARE,
            scatter: shared.scatter(),
            random: seed,
        };
        ShardPolicy {
            accesses,
            happened: Happened::default(),
            misses: 0,
            keys: 0,
            bytes: 0,
            ghosts: Ghosts::default(),
            window: Window::default(),
            samples: Vec::new(),
            has_handed_over: false,
            shared,
        }
    }

    /// Notes a lookup that found the key of `hash`, which takes `bytes`; returns its new mark.
    pub fn hit(&mut self, hash: u64, bytes: u64, mark: Mark) -> Mark {
        self.plain_hit(hash, mark).unwrap_or_else(|| self.hits(hash, 1, || bytes, mark))
    }

    /// As [`ShardPolicy::hit`] where the key is none of those that are followed and no other shard
    /// has to learn of it, as of nearly all hits; else does nothing and returns `None`.
    #[inline(always)]
    pub fn plain_hit(&mut self, hash: u64, mark: Mark) -> Option<Mark> {
        let Accesses { known, left, scatter, .. } = &self.accesses;
        if *left <= 1 || known.follows(scatter.of(hash)) {
            return None;
        }
        self.accesses.left -= 1;
        Some(self.used(mark))
    }

    /// As [`ShardPolicy::plain_hit`], of [`ShardPolicy::overwrite`].
    #[inline(always)]
    pub fn plain_overwrite(&mut self, hash: u64, mark: Mark) -> Option<Mark> {
        let mark = self.plain_hit(hash, mark)?;
        self.accesses.writes += 1;
        Some(mark)
    }

    /// As [`ShardPolicy::hit`], for so many `times` that were reported at once; asks for the
    /// `bytes` only where the key is one of the few that are followed.
    pub fn hits(&mut self, hash: u64, times: u32, bytes: impl FnOnce() -> u64, mark: Mark) -> Mark {
        self.pass(times);
        let hash = self.accesses.scatter.of(hash);
        if self.accesses.known.follows(hash) {
            self.sample(hash, bytes(), Event::Hit);
        }
        let mut mark = mark;
        for _ in 0..times.min(TIMES_MAX) {
            mark = self.used(mark);
        }
        mark
    }

    /// Notes a lookup that did not find the key of `hash`.
    pub fn miss(&mut self, hash: u64) {
        self.happened.misses += 1;
        self.misses = (self.misses + 1).min(MISSES_MAX);
        self.pass(1);
        let hash = self.accesses.scatter.of(hash);
        let random = self.draw();
        self.ghosts.miss(hash, self.now(), random);
        if self.accesses.known.follows(hash) {
            self.sample(hash, 0, Event::Miss);
        }
    }

    /// Notes that the key of `hash` is there now, and takes `bytes`; returns its mark.
    pub fn insert(&mut self, hash: u64, bytes: u64) -> Mark {
        match self.misses.checked_sub(1) {
            Some(fewer) => self.misses = fewer,
            None => self.pass_writing(),
        }
        self.change_size(1, bytes as i64);
        let (known_by, hash) = (hash, self.accesses.scatter.of(hash));
        let (now, random) = (self.now(), self.draw());
        let known = self.ghosts.take(hash, now, random);
        self.happened.ghost_hits += u32::from(known.is_some());
        let mark = known.unwrap_or(Mark::first(now));
        self.window.push(Newcomer::new(known_by, bytes, mark), self.keys, self.bytes);
        self.ghosts.fit(self.ghost_count());
        if self.accesses.known.follows(hash) {
            self.sample(hash, bytes, Event::Write);
        }
        mark
    }

    /// Notes that the key of `hash`, which took `bytes_before`, was written over or changed and
    /// takes `bytes`; returns its new mark.
    pub fn write(&mut self, hash: u64, bytes_before: u64, bytes: u64, mark: Mark) -> Mark {
        self.resize(bytes_before, bytes);
        self.overwrite(hash, || bytes, mark)
    }

    /// As [`ShardPolicy::write`] of a key whose size is told by itself: it is asked for only where
    /// the key is one of the few that are followed.
    pub fn overwrite(&mut self, hash: u64, bytes: impl FnOnce() -> u64, mark: Mark) -> Mark {
        self.pass_writing();
        let hash = self.accesses.scatter.of(hash);
        if self.accesses.known.follows(hash) {
            self.sample(hash, bytes(), Event::Write);
        }
        self.used(mark)
    }

    /// Notes that the key of `hash`, which took `bytes`, was evicted as its value was the least.
    pub fn evict(&mut self, hash: u64, bytes: u64, mark: Mark) {
        let hash = self.accesses.scatter.of(hash);
        self.forget(hash, bytes, mark);
    }

    /// Notes what a victim was worth, for [`ShardPolicy::should_ask_another`].
    pub fn note_victim(&self, value: Value) {
        self.shared.note_victim(value);
    }

    /// Notes that the key of `hash`, which took `bytes`, was deleted or has expired. It may come
    /// back: its mark is remembered as that of a victim is.
    pub fn remove(&mut self, hash: u64, bytes: u64, mark: Mark) {
        let hash = self.accesses.scatter.of(hash);
        self.forget(hash, bytes, mark);
        if self.accesses.known.follows(hash) {
            self.sample(hash, bytes, Event::Remove);
        }
    }

    /// Notes that a key took `bytes_before` and takes `bytes` now, which is no access of its own.
    pub fn resize(&mut self, bytes_before: u64, bytes: u64) {
        self.change_size(0, bytes as i64 - bytes_before as i64);
    }

    /// Notes that the shard has so many keys with so many `bytes` that the policy has not seen.
    pub fn adopt(&mut self, keys: u64, bytes: u64) {
        self.change_size(keys as i64, bytes as i64);
        self.settle();
    }

    /// Notes that so many keys with so many `bytes` have gone at once, and others have not.
    pub fn forget_some(&mut self, keys: u64, bytes: u64) {
        if keys == self.keys {
            return self.clear();
        }
        self.change_size(-(keys as i64), -(bytes as i64));
        self.settle();
    }

    /// Tells the other shards what has happened, and reads the clock and the blend, so that values
    /// in several shards are of one moment.
    pub fn refresh(&mut self) {
        self.settle();
    }

    /// Returns the time of the policy as this shard knows it.
    #[inline]
    pub fn now(&self) -> Tick {
        self.accesses.known.now
    }

    /// Notes that all keys have gone at once.
    pub fn clear(&mut self) {
        self.change_size(-(self.keys as i64), -(self.bytes as i64));
        self.ghosts.clear();
        self.window = Window::default();
        self.settle();
    }

    /// Returns what a key is worth now. The key of the least value should go.
    #[inline]
    pub fn value(&self, candidate: Candidate) -> Value {
        let Candidate { mark, bytes, cost } = candidate;
        let Known { now, blend, objective, .. } = self.accesses.known;
        Value::of(mark, bytes, cost, now, blend, objective)
    }

    /// Returns whether a sampled key of `mark` has come, or was used, so lately that it is not to
    /// be evicted.
    #[inline]
    pub fn is_new(&self, mark: Mark) -> bool {
        self.window.may_contain(mark, self.now())
    }

    /// Returns whether another shard is likely to have a victim of clearly less value than
    /// `value`, the least one found here.
    pub fn should_ask_another(&self, value: Value) -> bool {
        self.shared.is_above_level(value)
    }

    /// Returns the memory that is looked at when the key of `hash` comes or goes: an engine that
    /// knows so early asks the cache for it.
    pub fn ghost_place(&self, hash: u64) -> Option<&GhostBucket> {
        self.ghosts.place(self.accesses.scatter.of(hash))
    }

    /// Returns the key behind which the next one that comes is put, mostly: as of
    /// [`ShardPolicy::ghost_place`], an engine asks the cache for what follows it.
    #[inline]
    pub fn newest(&self) -> Option<&Newcomer> {
        self.window.newest()
    }

    /// Returns the memory that the policy of this shard takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let samples = self.samples.capacity() * size_of::<Sample>();
        size_of::<ShardPolicy>() as u64
            + self.ghosts.memory_bytes()
            + self.window.memory_bytes()
            + samples as u64
    }

    /// Takes the key out of the window that has been there for longest, if the window is too large,
    /// and returns its hash, and what the key is unless it was used meanwhile, at any cost. If the
    /// key is still there, it is a candidate beside those sampled.
    pub fn leave_window(&mut self) -> Option<(u64, Candidate)> {
        let newcomer = self.window.leave(self.bytes)?;
        let (mark, bytes) = (newcomer.mark, newcomer.bytes());
        Some((newcomer.hash, Candidate { mark, bytes, cost: Cost::ONE }))
    }

    /// Returns a key that leaves the window a few keys behind the next one: an engine asks the
    /// cache for it, as it was put there long ago.
    #[inline]
    pub fn leaves_later(&self) -> Option<&Newcomer> {
        self.window.leaves_later()
    }

    /// Returns whether this shard has handed something to the shadow caches since it was asked
    /// last: what [`Shared::memory_bytes`] returns may have changed.
    #[inline]
    pub fn take_handed_over(&mut self) -> bool {
        std::mem::take(&mut self.has_handed_over)
    }

    /// Lets time pass by so many accesses.
    #[inline]
    fn pass(&mut self, accesses: u32) {
        self.accesses.left = self.accesses.left.saturating_sub_unsigned(accesses);
        if self.accesses.left <= 0 {
            self.settle();
        }
    }

    /// Lets time pass by an access that is no lookup.
    fn pass_writing(&mut self) {
        self.accesses.writes += 1;
        self.pass(1);
    }

    #[cold]
    fn settle(&mut self) {
        let Accesses { known, left, writes, .. } = &mut self.accesses;
        let accesses = known.settle_accesses.abs_diff(*left);
        let passed = Passed { accesses, writes: std::mem::take(writes) };
        let happened = std::mem::take(&mut self.happened);
        *known = self.shared.settle(passed, happened);
        *left = known.settle_accesses;
    }

    /// Returns `mark` after one more access. That of a frequent key hardly ever changes, so that a
    /// hit of it neither computes nor writes: most hits of a cache are of such keys.
    #[inline(always)]
    fn used(&mut self, mark: Mark) -> Mark {
        if mark.is_frequent(self.now()) {
            self.accesses.frequent_left -= 1;
            return if self.accesses.frequent_left > 0 { mark } else { self.used_often(mark) };
        }
        let random = self.draw();
        mark.used(self.now(), random)
    }

    /// Returns `mark` after as many accesses as pass between two that count on average. How many
    /// pass until the next one is random, as the accesses of several keys may alternate.
    #[inline(never)]
    fn used_often(&mut self, mark: Mark) -> Mark {
        // The mean of 1 to 2n - 1 is n.
        let range = u64::from(2 * FREQUENT_SHARE - 1);
        self.accesses.frequent_left = 1 + (((self.draw() >> 32) * range) >> 32) as u32;
        let random = self.draw();
        mark.used_often(self.now(), random)
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        // Knuth's generator of MMIX: the upper bits of both halves are random enough to round by.
        self.accesses.random =
            self.accesses.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.accesses.random
    }

    #[cold]
    fn sample(&mut self, hash: u64, bytes: u64, event: Event) {
        if self.samples.len() < SAMPLES_KEPT {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.samples.push(Sample { hash, bytes, now: self.now(), event });
        }
        if self.samples.len() >= usize::from(self.accesses.known.samples_min) {
            self.hand_over();
        }
    }

    /// Hands the samples to the shadow caches, if nobody else does at this moment.
    fn hand_over(&mut self) {
        if self.shared.observe(&self.samples) {
            self.samples.clear();
            self.has_handed_over = true;
        }
    }

    fn forget(&mut self, hash: u64, bytes: u64, mark: Mark) {
        self.change_size(-1, -(bytes as i64));
        let random = self.draw();
        self.ghosts.remember(hash, mark, self.now(), random);
    }

    fn change_size(&mut self, keys: i64, bytes: i64) {
        self.keys = self.keys.saturating_add_signed(keys);
        self.bytes = self.bytes.saturating_add_signed(bytes);
        self.happened.keys += keys;
        self.happened.bytes += bytes;
    }

    fn ghost_count(&self) -> u64 {
        let affordable = self.bytes / GHOSTS_MEMORY_SHARE / BYTES_PER_GHOST;
        affordable.min(self.keys * GHOSTS_PER_KEY)
    }
}

#[cfg(test)]
mod tests {
    use base::prng::Prng;

    use super::*;
    use crate::value::Objective;

    fn policy() -> ShardPolicy {
        let shared = Shared::new(Objective::Hits, 10_000_000, 1, 7);
        let mut policy = ShardPolicy::new(Arc::new(shared), 9);
        policy.adopt(100_000, 10_000_000);
        policy
    }

    #[test]
    fn frequent_keys_that_alternate_count_as_often_as_they_are_used() {
        const KEYS: usize = 1000;
        const ROUNDS: u32 = 1000;
        let mut policy = policy();
        let mut marks = [Mark::new(81, 81, policy.now()); KEYS];
        let (mut kept, mut sums) = (0, vec![0.0; KEYS]);
        for round in 0..ROUNDS {
            for (key, mark) in marks.iter_mut().enumerate() {
                let next = policy.hit(base::prng::mix(key as u64), 100, *mark);
                kept += u32::from(next == *mark);
                *mark = next;
                if round >= ROUNDS / 2 {
                    let octaves = f64::from(mark.logs(policy.now()).1) / 256.0;
                    sums[key] += octaves.exp2() / f64::from(ROUNDS / 2);
                }
            }
        }
        assert!(kept > ROUNDS * KEYS as u32 * 3 / 4, "most hits change nothing: {kept}");
        // Each key is used 100 times in a turnover of 100,000 accesses, which is the sum of as many
        // that are halved once in a turnover.
        let expected = 100.0 / 2_f64.ln();
        let mean = sums.iter().sum::<f64>() / KEYS as f64;
        assert!((mean / expected - 1.0).abs() < 0.1, "{mean}, not {expected}");
        assert!(sums.iter().all(|sum| (0.5..2.0).contains(&(sum / expected))), "{sums:?}");
    }

    #[test]
    fn access_of_a_frequent_key_that_has_rested_counts() {
        let mut policy = policy();
        let now = policy.now();
        let rested = Mark::new(81, 81, now.wrapping_sub(64));
        for key in 0..100 {
            let next = policy.hit(base::prng::mix(key), 100, rested);
            assert_eq!(next.stamp(), now, "of key {key}");
        }
    }

    #[test]
    fn plain_accesses_are_whole_ones_that_nobody_follows() {
        let (plain, whole, random) = (&mut policy(), &mut policy(), &mut Prng::new(1));
        let (mut hits, mut misses, mut writes, mut plain_count) = (0, 0, 0, 0);
        for _ in 0..20_000 {
            let (hash, mark) = (random.next(), Mark::from_word(random.next() as u32));
            match random.below(4) {
                0 => {
                    misses += 1;
                    plain.miss(hash);
                    whole.miss(hash);
                    continue;
                }
                1 => {
                    writes += 1;
                    let found = plain.plain_overwrite(hash, mark);
                    plain_count += u32::from(found.is_some());
                    let found = found.unwrap_or_else(|| plain.overwrite(hash, || 100, mark));
                    assert_eq!(found, whole.overwrite(hash, || 100, mark));
                }
                _ => {
                    hits += 1;
                    let found = plain.plain_hit(hash, mark);
                    plain_count += u32::from(found.is_some());
                    let found = found.unwrap_or_else(|| plain.hits(hash, 1, || 100, mark));
                    assert_eq!(found, whole.hits(hash, 1, || 100, mark));
                }
            }
        }
        assert!(plain_count > 10_000, "most are plain: {plain_count}");
        for policy in [&mut *plain, &mut *whole] {
            policy.refresh();
            assert_eq!(policy.shared.lookups_and_hits(), (hits + misses, hits));
        }
        assert_eq!(plain.shared.clock(), whole.shared.clock());
        assert!(writes > 0 && plain.shared.clock() > 0);
    }
}
