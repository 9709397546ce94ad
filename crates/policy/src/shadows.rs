//! Shadow caches: what the hit rate is under other blends, and with other memory.
//!
//! A fixed part of all keys, chosen by their hashes (as SHARDS does), is followed in caches without
//! values whose size is the same part of the real one. One cache for each blend finds which blend
//! does best: at the end of each epoch of two turnovers the one with the most hits, of which those
//! of earlier epochs count half each time, is put in force if it leads by more than chance. Two
//! more use the blend in force with half and with twice the memory, and a list in the order of use
//! gives the hits of LRU at all three sizes. They share what they know of the keys: sizes and
//! marks.
//!
//! So few keys are followed that the shadows take about a 160th of the cache's memory at most, or
//! 60 KiB where that is more, and at most 0.5 MiB. When there are too many the part is halved, and
//! those that are out of it are forgotten.

use std::collections::VecDeque;

use base::prng::Prng;

use crate::lru_sizes::{LruSizes, SIZE_COUNT};
use crate::mark::{Mark, Tick};
use crate::sampled_keys::{COUNT_MAX, ENTRY_BYTES, Entry, Position, SampledKeys};
use crate::shared::sample_mask;
use crate::value::{Blend, Objective, Value};

/// At most so many of the keys that the cache would hold are followed while more than one in
/// 2^`BITS_MANY` is.
const KEYS_MAX: u64 = 2048;
/// At most so many are followed where a smaller part is.
const KEYS_MANY: u64 = 4096;
const BITS_MANY: u8 = 6;
/// The smallest part that is followed is one key in two to this power.
const BITS_MAX: u8 = 16;
/// The part is doubled while fewer keys than this are followed.
const KEYS_FEW: u64 = 512;
/// The shadows take at most one in so many bytes of the cache.
const MEMORY_SHARE: u64 = 160;
/// They may follow so many keys whatever those take.
const KEYS_LEAST: u64 = 512;
/// Keys that are known for each one that the cache would hold: the larger cache has twice as many,
/// and those that went are remembered for a while.
const KNOWN_PER_KEY: u64 = 4;

/// How many keys an eviction looks at, for all caches: of those each cache has about a quarter to a
/// half.
const DRAWS: usize = 40;
/// How many more such looks a key may need that came, as many small ones go for a large one.
const LOOKS_MAX: u32 = 64;
/// How many keys each of these evicts.
const VICTIMS_PER_LOOK: u32 = 4;
/// The part of the bytes of the keys that came last and are not drawn: one in so many.
const WINDOW_SHARE: u64 = 100;

/// How many lookups an epoch has for each key that there would be if the cache were full.
pub const EPOCH_TURNOVERS: u64 = 2;
/// A blend is put in force only if it leads by more than one in so many requests.
const LEAD_SHARE: u64 = 1000;
/// Beyond that it leads by more than one in so many of the root of their number, which is chance.
const LEAD_SPREAD: u64 = 4;
/// How many epochs it takes until there is advice.
pub const ADVICE_EPOCHS_MIN: u64 = 3;

/// The caches: one for each blend, and the blend in force at other sizes.
const CACHE_COUNT: usize = Blend::COUNT + 2;
const HALF: usize = Blend::COUNT;
const DOUBLE: usize = Blend::COUNT + 1;
// A bit of a byte is left for entries without a key.
const _: () = assert!(CACHE_COUNT < 8);

/// What happened to a key that is followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub hash: u64,
    pub bytes: u32,
    pub now: Tick,
    pub event: Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A lookup found it.
    Hit,
    /// A lookup did not find it; its size is not known.
    Miss,
    /// It came, or was written over.
    Write,
    /// It was deleted, or expired.
    Remove,
}

/// What the shadows have to know of the real cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// How many keys it has when it is full.
    pub keys: u64,
    pub capacity_bytes: u64,
    /// Lookups since the beginning.
    pub lookups: u64,
    /// Those of them that found their key.
    pub hits: u64,
}

/// Hit rates, from 0 to 1: the one that was measured, and those that there would have been. They
/// are of the last requests: of those an epoch earlier count half as much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// The hit rate that was measured.
    pub now: f64,
    /// With half of the memory.
    pub half_memory: f64,
    /// With twice the memory.
    pub double_memory: f64,
    /// Under LRU.
    pub lru: f64,
    /// Under LRU with half of the memory.
    pub lru_half_memory: f64,
    /// Under LRU with twice the memory.
    pub lru_double_memory: f64,
}

/// Sums over requests, in what is maximised and in number.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u64,
    gain: u64,
    hits: [u64; CACHE_COUNT],
    gains: [u64; CACHE_COUNT],
    lru_hits: [u64; SIZE_COUNT],
}

impl Counts {
    fn halve(&mut self) {
        self.requests /= 2;
        self.gain /= 2;
        self.hits.iter_mut().for_each(|hits| *hits /= 2);
        self.gains.iter_mut().for_each(|gain| *gain /= 2);
        self.lru_hits.iter_mut().for_each(|hits| *hits /= 2);
    }
}

/// The shadow caches.
#[derive(Debug)]
pub(crate) struct Shadows {
    objective: Objective,
    random: Prng,
    keys: SampledKeys,
    /// The bytes in each cache.
    bytes: [u64; CACHE_COUNT],
    lru: LruSizes,
    window: VecDeque<Position>,
    window_bytes: u64,
    sample_bits: u8,
    blend: Blend,
    counts: Counts,
    /// Requests of this epoch.
    epoch_requests: u64,
    /// Epochs that have ended.
    epochs: u64,
    /// The lookups of the real cache and their hits, in the same epochs and halved in the same way.
    measured: (u64, u64),
    /// As many as there were when the epoch began.
    measured_before: (u64, u64),
    advice: Option<Advice>,
    /// The memory of the first look of an eviction and of a further one, kept from one to the next:
    /// the system's allocator goes through all that is free where so much is wanted.
    looks: [Vec<Drawn>; 2],
}

/// A key that an eviction looks at.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    key: Position,
    caches: u8,
    /// What its value is for each blend.
    values: [Value; Blend::COUNT],
}

impl Shadows {
    pub fn new(objective: Objective, seed: u64) -> Shadows {
        Shadows {
            objective,
            random: Prng::new(seed ^ 0x5EED_0F5A_D055),
            keys: SampledKeys::default(),
            bytes: [0; CACHE_COUNT],
            lru: LruSizes::default(),
            window: VecDeque::new(),
            window_bytes: 0,
            sample_bits: 0,
            blend: Blend::FIRST,
            counts: Counts::default(),
            epoch_requests: 0,
            epochs: 0,
            measured: (0, 0),
            measured_before: (0, 0),
            advice: None,
            looks: Default::default(),
        }
    }

    /// Returns the blend that should be in force.
    pub fn blend(&self) -> Blend {
        self.blend
    }

    /// Returns how many bits of a hash are 0 where its key is followed.
    pub fn sample_bits(&self) -> u8 {
        self.sample_bits
    }

    /// Returns the memory that it takes beside itself, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let looks = self.looks.iter().map(|look| look.capacity() * size_of::<Drawn>());
        let own = looks.sum::<usize>() + self.window.capacity() * size_of::<Position>();
        self.keys.memory_bytes() + own as u64
    }

    /// Learns what happened.
    pub fn see(&mut self, sample: &Sample, setting: Setting) {
        self.adapt_part(setting);
        if sample.hash & sample_mask(self.sample_bits) != 0 {
            return;
        }
        let known = self.keys.find(sample.hash);
        match sample.event {
            Event::Hit => {
                let key = known.unwrap_or_else(|| self.add(sample, setting));
                self.resize(key, sample.bytes);
                self.request(key, sample, setting);
            }
            Event::Miss => match known {
                Some(key) => {
                    self.request(key, sample, setting);
                    self.keys.at_mut(key).was_missed = true;
                }
                None => self.count_request(None, setting),
            },
            Event::Write => {
                let key = known.unwrap_or_else(|| self.add(sample, setting));
                self.resize(key, sample.bytes);
                // The miss before it has counted as the access.
                if !std::mem::take(&mut self.keys.at_mut(key).was_missed) {
                    self.use_key(key, sample, setting);
                }
            }
            Event::Remove => {
                if let Some(key) = known {
                    self.remove(key);
                }
            }
        }
    }

    /// Returns what the hit rate would be otherwise.
    pub fn advice(&self) -> Option<Advice> {
        self.advice
    }

    /// Returns how many epochs have ended since the same part of the keys has been followed.
    pub fn epochs(&self) -> u64 {
        self.epochs
    }

    /// Halves or doubles the part of the keys that is followed if they are too many or too few.
    fn adapt_part(&mut self, setting: Setting) {
        let share = setting.capacity_bytes / MEMORY_SHARE / (KNOWN_PER_KEY * ENTRY_BYTES);
        let memory_max = share.max(KEYS_LEAST);
        let keys_max = |bits| if bits < BITS_MANY { KEYS_MAX } else { KEYS_MANY }.min(memory_max);
        let followed = setting.keys >> self.sample_bits;
        if followed > keys_max(self.sample_bits) && self.sample_bits < BITS_MAX {
            self.sample_bits += 1;
            self.forget_others();
            self.restart_counts(setting);
        } else if self.sample_bits > 0 {
            let fewer = self.sample_bits - 1;
            if followed * 4 < keys_max(fewer) && (followed < KEYS_FEW || fewer >= BITS_MANY) {
                self.sample_bits = fewer;
                self.restart_counts(setting);
            }
        }
    }

    fn forget_others(&mut self) {
        let mask = sample_mask(self.sample_bits);
        for key in self.keys.all() {
            if self.keys.at(key).hash() & mask != 0 {
                self.forget(key);
            }
        }
    }

    fn add(&mut self, sample: &Sample, setting: Setting) -> Position {
        let known_max = (setting.keys >> self.sample_bits).max(16).saturating_mul(KNOWN_PER_KEY);
        while self.keys.len() as u64 >= known_max.min(COUNT_MAX as u64) {
            let key = self.least_known(sample.now);
            self.forget(key);
        }
        // With the access that follows it counts as used nearly twice, which has more hits than to
        // count that once.
        let mark = Mark::new(0, 0, sample.now);
        self.keys.insert(Entry::new(sample.hash, sample.bytes, mark))
    }

    /// Returns a key that is in as few of the caches as any of some, and of those the one that was
    /// used least.
    fn least_known(&mut self, now: Tick) -> Position {
        let drawn = (0..DRAWS).map(|_| self.keys.sample(&mut self.random));
        let rank = |key: &Position| {
            let entry = self.keys.at(*key);
            let in_lru = u32::from(!self.lru.sizes_with(entry).is_empty());
            (entry.caches.count_ones() + in_lru, entry.mark.logs(now).0)
        };
        // The generator and the keys are parts of one value.
        let drawn: Vec<Position> = drawn.collect();
        drawn.into_iter().min_by_key(rank).expect("there are keys to draw from")
    }

    fn forget(&mut self, key: Position) {
        self.remove(key);
        self.keys.remove(key);
    }

    /// Takes the key out of all caches.
    fn remove(&mut self, key: Position) {
        for cache in 0..CACHE_COUNT {
            self.take_out(key, cache);
        }
        self.lru.remove(&mut self.keys, key);
        if std::mem::take(&mut self.keys.at_mut(key).is_newcomer) {
            self.window.retain(|one| *one != key);
            self.window_bytes -= u64::from(self.keys.at(key).bytes);
        }
        self.keys.at_mut(key).was_missed = false;
    }

    fn take_out(&mut self, key: Position, cache: usize) {
        let entry = self.keys.at_mut(key);
        if entry.caches & 1 << cache != 0 {
            entry.caches &= !(1 << cache);
            self.bytes[cache] -= u64::from(entry.bytes);
        }
    }

    fn resize(&mut self, key: Position, bytes: u32) {
        let before = self.keys.at(key).bytes;
        if before == bytes {
            return;
        }
        let caches = self.keys.at(key).caches;
        for cache in (0..CACHE_COUNT).filter(|cache| caches & 1 << cache != 0) {
            self.bytes[cache] = self.bytes[cache] - u64::from(before) + u64::from(bytes);
        }
        self.lru.resize(&self.keys, key, bytes);
        if self.keys.at(key).is_newcomer {
            self.window_bytes = self.window_bytes - u64::from(before) + u64::from(bytes);
        }
        self.keys.at_mut(key).bytes = bytes;
    }

    /// Counts a lookup of the key, and uses it.
    fn request(&mut self, key: Position, sample: &Sample, setting: Setting) {
        self.count_request(Some(key), setting);
        self.use_key(key, sample, setting);
    }

    fn count_request(&mut self, key: Option<Position>, setting: Setting) {
        self.epoch_requests += 1;
        if self.epoch_requests > EPOCH_TURNOVERS * (setting.keys >> self.sample_bits).max(64) {
            self.end_epoch(setting);
        }
        self.counts.requests += 1;
        let Some(key) = key else { return };
        let entry = self.keys.at(key);
        let gain = self.objective.gain(u64::from(entry.bytes));
        self.counts.gain += gain;
        for cache in (0..CACHE_COUNT).filter(|cache| entry.caches & 1 << cache != 0) {
            self.counts.hits[cache] += 1;
            self.counts.gains[cache] += gain;
        }
        self.lru.sizes_with(entry).for_each(|size| self.counts.lru_hits[size] += 1);
    }

    /// Notes an access, and puts the key in the caches that do not have it.
    fn use_key(&mut self, key: Position, sample: &Sample, setting: Setting) {
        let random = self.random.next();
        let entry = self.keys.at_mut(key);
        entry.mark = entry.mark.used(sample.now, random);
        let missing = !entry.caches & ((1 << CACHE_COUNT) - 1);
        let capacity = setting.capacity_bytes >> self.sample_bits;
        self.lru.use_key(&mut self.keys, key, capacity);
        if missing != 0 {
            self.place(key, missing, capacity, sample.now);
        }
    }

    fn place(&mut self, key: Position, missing: u8, capacity: u64, now: Tick) {
        let bytes = u64::from(self.keys.at(key).bytes);
        let capacity_of = |cache| match cache {
            HALF => capacity / 2,
            DOUBLE => capacity * 2,
            _ => capacity,
        };
        let candidates = self.let_in(key, capacity);
        let fits = |cache: &usize| missing & 1 << cache != 0 && bytes <= capacity_of(*cache);
        for cache in (0..CACHE_COUNT).filter(fits) {
            self.keys.at_mut(key).caches |= 1 << cache;
            self.bytes[cache] += bytes;
        }
        // Of the first look all caches see the same keys, the newcomer where it is a candidate.
        let mut first = std::mem::take(&mut self.looks[0]);
        first.clear();
        for cache in (0..CACHE_COUNT).filter(fits) {
            if self.bytes[cache] <= capacity_of(cache) {
                continue;
            }
            if first.is_empty() {
                self.look(&candidates, now, &mut first);
            }
            self.shrink(key, cache, capacity_of(cache), &first, now);
        }
        self.looks[0] = first;
    }

    /// Evicts from `cache` until it has no more than `capacity` bytes: the least of the keys of
    /// `first`, and then a few of those of each further look. Where that is not enough the newcomer
    /// goes.
    fn shrink(
        &mut self,
        newcomer: Position,
        cache: usize,
        capacity: u64,
        first: &[Drawn],
        now: Tick,
    ) {
        if let Some(victim) = self.least(first, cache) {
            self.take_out(victim, cache);
        }
        let mut drawn = std::mem::take(&mut self.looks[1]);
        for _ in 0..LOOKS_MAX {
            if self.bytes[cache] <= capacity {
                break;
            }
            self.look(&[], now, &mut drawn);
            for _ in 0..VICTIMS_PER_LOOK {
                let victim = self.least(&drawn, cache).filter(|_| self.bytes[cache] > capacity);
                let Some(victim) = victim else { break };
                drawn.retain(|one| one.key != victim);
                self.take_out(victim, cache);
            }
        }
        self.looks[1] = drawn;
        if self.bytes[cache] > capacity {
            self.take_out(newcomer, cache);
        }
    }

    /// Returns the key of the least value of those that `cache` has.
    fn least(&self, drawn: &[Drawn], cache: usize) -> Option<Position> {
        let blend = match cache {
            HALF | DOUBLE => usize::from(self.blend.position()),
            _ => cache,
        };
        let here = drawn.iter().filter(|one| one.caches & 1 << cache != 0);
        Some(here.min_by_key(|one| one.values[blend])?.key)
    }

    /// Looks at some keys, and at the candidates: `drawn` has them then, and nothing else.
    fn look(&mut self, candidates: &[Position], now: Tick, drawn: &mut Vec<Drawn>) {
        // All are drawn before the first is valued, as their cache misses do not wait for each
        // other so.
        let keys: [Position; DRAWS] = std::array::from_fn(|_| self.keys.sample(&mut self.random));
        let old = keys.iter().filter(|key| !self.keys.at(**key).is_newcomer);
        drawn.clear();
        drawn.reserve_exact(DRAWS + candidates.len());
        drawn.extend(old.chain(candidates).map(|key| self.drawn(*key, now)));
    }

    fn drawn(&self, key: Position, now: Tick) -> Drawn {
        let Entry { mark, bytes, caches, .. } = *self.keys.at(key);
        let values = Value::of_blends(mark, u64::from(bytes), now, self.objective);
        Drawn { key, caches, values }
    }

    /// Adds the key to the window, and returns those that leave it: at once the key itself, if it
    /// is larger than the window.
    fn let_in(&mut self, key: Position, capacity: u64) -> Vec<Position> {
        if !std::mem::replace(&mut self.keys.at_mut(key).is_newcomer, true) {
            self.window_bytes += u64::from(self.keys.at(key).bytes);
            self.window.push_back(key);
        }
        let mut candidates = Vec::new();
        while self.window_bytes > capacity / WINDOW_SHARE {
            let Some(candidate) = self.window.pop_front() else { break };
            let entry = self.keys.at_mut(candidate);
            entry.is_newcomer = false;
            self.window_bytes -= u64::from(entry.bytes);
            candidates.push(candidate);
        }
        candidates
    }

    fn end_epoch(&mut self, setting: Setting) {
        self.epoch_requests = 0;
        self.epochs += 1;
        self.measure(setting);
        let gains = &self.counts.gains;
        let best = Blend::all().max_by_key(|blend| gains[usize::from(blend.position())]);
        let best = best.expect("there are blends");
        let of = |blend: Blend| gains[usize::from(blend.position())];
        let Counts { gain, requests, .. } = self.counts;
        let lead = gain / LEAD_SHARE + gain / (LEAD_SPREAD * requests.isqrt().max(1));
        if of(best) - of(self.blend) > lead {
            self.blend = best;
        }
        self.advice = self.advise();
        self.counts.halve();
        self.measured = (self.measured.0 / 2, self.measured.1 / 2);
    }

    /// Returns what the hit rate would be otherwise.
    ///
    /// For other memory: the one that was measured, and how many more or fewer hits a shadow has
    /// than that of the blend in force. What is peculiar to the shadows is the same in both. The
    /// list of LRU is exact for its keys: its hits count, and those requests that the keys have too
    /// few or too many, for hits (as in SHARDS: it is the most popular keys that are among them or
    /// not).
    fn advise(&self) -> Option<Advice> {
        let (counts, (lookups, real_hits)) = (&self.counts, self.measured);
        if self.epochs < ADVICE_EPOCHS_MIN || lookups == 0 {
            return None;
        }
        let (hits, now) = (counts.hits, real_hits as f64 / lookups as f64);
        let here = hits[usize::from(self.blend.position())] as f64;
        let expected = lookups as f64 / (1_u64 << self.sample_bits) as f64;
        let rate = |hits: u64| (now + (hits as f64 - here) / expected).clamp(0.0, 1.0);
        let lacking = expected - counts.requests as f64;
        let lru = counts.lru_hits.map(|hits| ((hits as f64 + lacking) / expected).clamp(0.0, 1.0));
        Some(Advice {
            now,
            half_memory: rate(hits[HALF]),
            double_memory: rate(hits[DOUBLE]),
            lru: lru[1],
            lru_half_memory: lru[0],
            lru_double_memory: lru[2],
        })
    }

    fn measure(&mut self, setting: Setting) {
        self.measured.0 += setting.lookups - self.measured_before.0;
        self.measured.1 += setting.hits - self.measured_before.1;
        self.measured_before = (setting.lookups, setting.hits);
    }

    /// Forgets what has been counted, as another part of the keys is followed from here on.
    fn restart_counts(&mut self, setting: Setting) {
        self.measure(setting);
        (self.measured, self.counts) = ((0, 0), Counts::default());
        (self.epochs, self.epoch_requests, self.advice) = (0, 0, None);
    }
}
