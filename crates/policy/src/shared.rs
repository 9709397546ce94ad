//! What all shards share: the clock, sizes, the blend in force, and the shadow caches.
//!
//! A shard adds what has happened to it every few requests, with relaxed additions, and reads the
//! clock and the blend then. Nothing here orders other memory. The shadow caches are behind a mutex
//! that a shard tries to take once it has some samples, and otherwise tries again later: no request
//! waits for another.

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::logarithm::{Log, OCTAVE};
use crate::mark::{TICKS_PER_TURNOVER, Tick};
use crate::scatter::Scatter;
use crate::shadows::{Advice, Sample, Setting, Shadows};
use crate::value::{Blend, Objective, Value};

/// A cache of fewer keys is taken for one of so many: its turnovers would be too short to count in.
const KEYS_MIN: u64 = 64;
/// A shard tells of its accesses after so many at the latest.
const SETTLE_ACCESSES_MAX: u64 = 1024;
/// It tells of them after so many at the earliest, unless a tick is shorter, as all shards write to
/// the same line.
const SETTLE_ACCESSES_MIN: u64 = 8;
/// Between the two, each shard tells so often in a tick.
const SETTLES_PER_TICK: u64 = 2;
/// A turnover's samples are handed over in so many pieces by each shard at least: those of one
/// piece follow each other, and one after the other they must not seem to come in bursts.
const TURNOVER_SAMPLES: u64 = 32;
/// How many samples a shard collects at most before it tries to hand them over.
const SAMPLES_MIN_MAX: u64 = 8;
/// The part of the distance to a victim's value that the level moves: one in so many.
const LEVEL_SHARE: Log = 64;
/// By how much a victim may be worth more than the usual one before another shard is asked.
const LEVEL_TOLERANCE: Log = OCTAVE / 2;

/// The part of the policy that all shards share.
#[derive(Debug)]
pub struct Shared {
    objective: Objective,
    /// Scatters what clients can choose, the hashes of keys.
    scatter: Scatter,
    shard_count: u64,
    /// In 2^-32ths of a tick.
    clock: AtomicU64,
    lookups: AtomicU64,
    hits: AtomicU64,
    ghost_hits: AtomicU64,
    keys: AtomicU64,
    bytes: AtomicU64,
    capacity_bytes: AtomicU64,
    blend: AtomicU8,
    /// A key is in the shadow caches where so many bits of its hash are 0.
    sample_bits: AtomicU8,
    /// The value of the usual victim.
    level: AtomicI32,
    shadow_bytes: AtomicU64,
    shadows: Mutex<Shadows>,
}

/// The accesses of a shard since it told last: what makes time pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    /// Lookups and writes.
    pub accesses: u32,
    /// Those of them that are no lookups.
    pub writes: u32,
}

/// What else has happened to a shard since it told last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Happened {
    /// Lookups that did not find their key.
    pub misses: u32,
    /// Keys that came back and had a ghost.
    pub ghost_hits: u32,
    pub keys: i64,
    pub bytes: i64,
}

/// What a shard knows of the others until it asks again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// As [`sample_mask`] returns it.
    sample_mask: u64,
    pub now: Tick,
    /// After how many accesses to ask again.
    pub settle_accesses: i32,
    pub blend: Blend,
    pub objective: Objective,
    /// How many samples to collect for the shadow caches.
    pub samples_min: u8,
}

impl Known {
    /// Returns whether the key of this scattered `hash` is in the shadow caches.
    #[inline]
    pub fn follows(&self, hash: u64) -> bool {
        hash & self.sample_mask == 0
    }
}

impl Shared {
    /// Returns the shared part of a policy for `shard_count` shards that hold `capacity_bytes`
    /// together. `seed` is a random number that nobody outside knows.
    ///
    /// # Panics
    /// When there is no shard.
    pub fn new(objective: Objective, capacity_bytes: u64, shard_count: u32, seed: u64) -> Shared {
        assert!(shard_count > 0, "a cache has a shard");
        let shadows = Shadows::new(objective, seed);
        Shared {
            objective,
            scatter: Scatter(seed),
            shard_count: u64::from(shard_count),
            clock: AtomicU64::new(0),
            lookups: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            ghost_hits: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            capacity_bytes: AtomicU64::new(capacity_bytes),
            blend: AtomicU8::new(Blend::FIRST.position()),
            sample_bits: AtomicU8::new(0),
            level: AtomicI32::new(Log::MAX / 2),
            shadow_bytes: AtomicU64::new(shadows.memory_bytes()),
            shadows: Mutex::new(shadows),
        }
    }

    /// Returns the same, whose clock goes on from `clock`: marks that were made before stay right.
    pub fn continuing(self, clock: u64) -> Shared {
        self.clock.store(clock, Ordering::Relaxed);
        self
    }

    /// Returns the clock, for [`Shared::continuing`].
    pub fn clock(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Returns the bytes of all keys, as far as shards have told.
    pub fn bytes(&self) -> u64 {
        (self.bytes.load(Ordering::Relaxed) as i64).max(0) as u64
    }

    /// Returns how many keys came back whose counters were known yet, as far as shards have told.
    pub fn ghost_hits(&self) -> u64 {
        self.ghost_hits.load(Ordering::Relaxed)
    }

    /// Sets how many bytes of keys and values the cache can hold: what the engine counts as the
    /// bytes of a key, together.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        self.capacity_bytes.store(capacity_bytes, Ordering::Relaxed);
    }

    /// Returns the blend in force.
    pub fn blend(&self) -> Blend {
        Blend::at(self.blend.load(Ordering::Relaxed))
    }

    /// Returns the memory of the shared part, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        size_of::<Shared>() as u64 + self.shadow_bytes.load(Ordering::Relaxed)
    }

    /// Returns what the hit rate would be under other policies and with other memory; `None` while
    /// too little has been seen. It waits for the shadow caches: a few dozen microseconds.
    pub fn advice(&self) -> Option<Advice> {
        self.locked_shadows().advice()
    }

    /// Returns how many epochs of the [`ADVICE_EPOCHS_MIN`](crate::ADVICE_EPOCHS_MIN) that advice
    /// takes have ended, or more. A change of what the shadow caches follow begins anew. It waits
    /// as [`Shared::advice`] does.
    pub fn epochs(&self) -> u64 {
        self.locked_shadows().epochs()
    }

    fn locked_shadows(&self) -> MutexGuard<'_, Shadows> {
        self.shadows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many lookups there were, and how many of them found their key.
    #[cfg(test)]
    pub(crate) fn lookups_and_hits(&self) -> (u64, u64) {
        (self.lookups.load(Ordering::Relaxed), self.hits.load(Ordering::Relaxed))
    }

    pub(crate) fn scatter(&self) -> Scatter {
        self.scatter
    }

    /// Adds what happened to a shard, and returns what it has to know.
    pub(crate) fn settle(&self, passed: Passed, happened: Happened) -> Known {
        let lookups = passed.accesses - passed.writes;
        add(&self.lookups, u64::from(lookups));
        add(&self.hits, u64::from(lookups - happened.misses));
        add(&self.ghost_hits, u64::from(happened.ghost_hits));
        // Two's complement: adding a negative number as an unsigned one subtracts.
        add(&self.keys, happened.keys as u64);
        add(&self.bytes, happened.bytes as u64);
        let turnover = self.keys_when_full();
        let step = (u64::from(TICKS_PER_TURNOVER) << 32) / turnover;
        let ticks = step * u64::from(passed.accesses);
        let clock = self.clock.fetch_add(ticks, Ordering::Relaxed).wrapping_add(ticks);
        let tick_accesses = turnover / u64::from(TICKS_PER_TURNOVER);
        let settle_min = SETTLE_ACCESSES_MIN.min(tick_accesses.max(1));
        let settle_accesses = tick_accesses / self.shard_count / SETTLES_PER_TICK;
        let samples_max = turnover / TURNOVER_SAMPLES / self.shard_count;
        let sample_bits = self.sample_bits.load(Ordering::Relaxed);
        Known {
            sample_mask: sample_mask(sample_bits),
            now: (clock >> 32) as Tick,
            settle_accesses: settle_accesses.clamp(settle_min, SETTLE_ACCESSES_MAX) as i32,
            blend: self.blend(),
            objective: self.objective,
            samples_min: (samples_max >> sample_bits).clamp(1, SAMPLES_MIN_MAX) as u8,
        }
    }

    /// Hands `samples` to the shadow caches if nobody else does at this moment; returns whether it
    /// did.
    pub(crate) fn observe(&self, samples: &[Sample]) -> bool {
        let Ok(mut shadows) = self.shadows.try_lock() else { return false };
        let setting = Setting {
            keys: self.keys_when_full(),
            capacity_bytes: self.capacity_bytes.load(Ordering::Relaxed),
            lookups: self.lookups.load(Ordering::Relaxed),
            hits: self.hits.load(Ordering::Relaxed),
        };
        for sample in samples {
            shadows.see(sample, setting);
        }
        self.blend.store(shadows.blend().position(), Ordering::Relaxed);
        self.sample_bits.store(shadows.sample_bits(), Ordering::Relaxed);
        self.shadow_bytes.store(shadows.memory_bytes(), Ordering::Relaxed);
        true
    }

    /// Returns whether a victim of this value is worth clearly more than the usual one.
    pub(crate) fn is_above_level(&self, value: Value) -> bool {
        value.log().saturating_sub(LEVEL_TOLERANCE) > self.level.load(Ordering::Relaxed)
    }

    /// Notes the value of a victim.
    pub(crate) fn note_victim(&self, value: Value) {
        let level = self.level.load(Ordering::Relaxed);
        let next = match level == Log::MAX / 2 {
            true => value.log(),
            false => level + (value.log() - level) / LEVEL_SHARE + (value.log() - level).signum(),
        };
        self.level.store(next, Ordering::Relaxed);
    }

    fn keys(&self) -> u64 {
        // A shard may tell of a key that has gone before the shard that it came to tells of it.
        (self.keys.load(Ordering::Relaxed) as i64).max(0) as u64
    }

    /// Returns how many keys there are once the cache is full.
    fn keys_when_full(&self) -> u64 {
        let (keys, bytes) = (self.keys(), self.bytes.load(Ordering::Relaxed).max(1));
        let capacity = self.capacity_bytes.load(Ordering::Relaxed);
        let full = u128::from(keys) * u128::from(capacity.max(bytes)) / u128::from(bytes);
        u64::try_from(full).unwrap_or(u64::MAX >> 16).clamp(KEYS_MIN, u64::MAX >> 16)
    }
}

/// Adds, unless that would be a write for nothing to a line that all shards share.
fn add(sum: &AtomicU64, number: u64) {
    if number != 0 {
        sum.fetch_add(number, Ordering::Relaxed);
    }
}

/// Returns the bits of a hash that are 0 in one of 2^`bits` keys.
pub(crate) fn sample_mask(bits: u8) -> u64 {
    ((1 << bits.min(16)) - 1) << 32
}
