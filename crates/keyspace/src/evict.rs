//! Eviction: which keys go when room is needed.
//!
//! Each shard looks at a few of its keys at a time and remembers the least recently used of all
//! that it looked at, as Redis does, so that a choice among five at a time comes close to the
//! oldest of the shard. Access times are seconds modulo 2^16: a key unused for more than 18 hours
//! may look younger than it is.

use std::sync::atomic::Ordering;

use arena::{Entry, Owner};
use base::prng::Prng;
use base::{DatabaseIndex, ShardIndex, UnixMs};

use crate::keyspace::Keyspace;
use crate::recorder::Recorder;
use crate::room::SweepContext;
use crate::shard::{Shard, is_expired};
use crate::view::stamp_of;
use crate::write::{Place, Removal};

/// How many keys a choice looks at unless told: Redis's maxmemory-samples.
pub(crate) const SAMPLES_DEFAULT: u32 = 5;
/// How many candidates a shard remembers: Redis's EVPOOL_SIZE.
const CANDIDATES_MAX: usize = 16;
/// The longest key that is remembered after the shard is unlocked.
const CANDIDATE_KEY_BYTES_MAX: usize = 1024;
/// How many keys go during one hold of a shard.
const VICTIMS_PER_HOLD_MAX: u32 = 32;
/// How many slab pages are emptied during one hold of a shard.
const EVACUATIONS_PER_HOLD_MAX: u32 = 4;

/// Which keys may be evicted, by Redis's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// None: a write that lacks room is refused.
    NoEviction,
    /// Any, the least recently used of a sample first.
    AllKeysLru,
}

/// The least recently used keys that a shard's samples met.
#[derive(Debug, Default)]
pub(crate) struct EvictionPool {
    candidates: Vec<Candidate>,
}

#[derive(Debug)]
struct Candidate {
    database: DatabaseIndex,
    key: Box<[u8]>,
    stamp: u16,
}

/// A random key.
struct Sample<'s> {
    database: DatabaseIndex,
    key: &'s [u8],
    stamp: u16,
}

fn idle_seconds(stamp: u16, now: UnixMs) -> u16 {
    stamp_of(now).wrapping_sub(stamp)
}

impl EvictionPool {
    /// Remembers `sample` if it is among the least recently used.
    fn offer(&mut self, sample: Sample<'_>, now: UnixMs) {
        let Sample { database, key, stamp } = sample;
        let same = |one: &Candidate| one.database == database && *one.key == *key;
        if let Some(known) = self.candidates.iter_mut().find(|one| same(one)) {
            known.stamp = stamp;
            return;
        }
        if self.candidates.len() < CANDIDATES_MAX {
            return self.candidates.push(Candidate { database, key: key.into(), stamp });
        }
        let youngest = self.candidates.iter_mut().min_by_key(|one| idle_seconds(one.stamp, now));
        let youngest = youngest.expect("the pool is full");
        if idle_seconds(youngest.stamp, now) < idle_seconds(stamp, now) {
            *youngest = Candidate { database, key: key.into(), stamp };
        }
    }

    /// Takes out the best victim.
    fn take(&mut self, now: UnixMs) -> Option<Candidate> {
        let ranks = self.candidates.iter().enumerate();
        let (best, _) = ranks.max_by_key(|(_, one)| idle_seconds(one.stamp, now))?;
        Some(self.candidates.swap_remove(best))
    }

    /// Forgets candidates with long keys, so that what a shard remembers stays small.
    fn trim(&mut self) {
        self.candidates.retain(|one| one.key.len() <= CANDIDATE_KEY_BYTES_MAX);
    }

    fn memory_bytes(&self) -> u64 {
        let keys: usize = self.candidates.iter().map(|one| one.key.len()).sum();
        (keys + self.candidates.capacity() * size_of::<Candidate>()) as u64
    }
}

impl Keyspace {
    /// Returns the policy.
    pub fn eviction_policy(&self) -> EvictionPolicy {
        match self.eviction_policy.load(Ordering::Relaxed) {
            0 => EvictionPolicy::NoEviction,
            _ => EvictionPolicy::AllKeysLru,
        }
    }

    /// Sets the policy.
    pub fn set_eviction_policy(&self, policy: EvictionPolicy) {
        self.eviction_policy.store(policy as u8, Ordering::Relaxed);
    }

    /// Sets how many keys each choice looks at: maxmemory-samples.
    ///
    /// # Panics
    /// When `samples` is 0.
    pub fn set_eviction_samples(&self, samples: u32) {
        assert!(samples > 0, "a choice looks at one key at least");
        self.eviction_samples.store(samples, Ordering::Relaxed);
    }

    /// Evicts keys of `shard` until about `goal` bytes are free, a bounded number, and empties
    /// slab pages. Returns the bytes of the evicted entries that are free now.
    pub(crate) fn evict_from(
        &self,
        shard: ShardIndex,
        goal: u64,
        victims: Victims,
        context: &mut SweepContext<'_>,
    ) -> Freed {
        let samples = self.eviction_samples.load(Ordering::Relaxed);
        let mut guard = self.lock(shard);
        let shard = guard.shard_mut(shard);
        let pool_bytes = shard.eviction_pool.memory_bytes();
        let mut freed = Freed::default();
        for _ in 0..VICTIMS_PER_HOLD_MAX {
            if freed.bytes() >= goal {
                break;
            }
            shard.sample_candidates(samples, victims, context.now, context.random);
            let Some(one) = shard.evict_best(victims, context.now) else { break };
            freed.small += one.small;
            freed.large += one.large;
        }
        shard.give_back();
        shard.eviction_pool.trim();
        let pool_bytes_now = shard.eviction_pool.memory_bytes();
        drop(guard);
        self.charge(pool_bytes_now);
        self.discharge(pool_bytes);
        freed
    }
}

/// Which entries may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victims {
    Any,
    /// Those in slab pages: it is these pages that are wanted.
    Small,
}

impl Victims {
    fn include(self, entry: &Entry<'_>) -> bool {
        self == Victims::Any || !entry.header().is_large()
    }
}

/// Bytes that eviction has freed, by the memory that they are of: slab pages or extents.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Freed {
    pub small: u64,
    pub large: u64,
}

impl Freed {
    pub fn bytes(self) -> u64 {
        self.small + self.large
    }
}

/// A block that may be evicted.
#[derive(Clone, Copy)]
struct Block {
    offset: u64,
    owner: Owner,
    idle_seconds: u16,
}

/// What evicting blocks came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlocksEvicted {
    /// Bytes that are free now.
    pub freed: u64,
    /// Those of them whose place a small entry unused for longer should have had.
    pub unfair: u64,
}

impl Keyspace {
    /// Evicts large entries, the least recently used of a few blocks each time, until about `goal`
    /// bytes are free, a bounded number. Blocks are chosen where they lie: among millions of small
    /// keys, samples of keys would hardly meet a large one.
    pub(crate) fn evict_blocks(&self, goal: u64, context: &mut SweepContext<'_>) -> BlocksEvicted {
        let mut evicted = BlocksEvicted::default();
        for _ in 0..VICTIMS_PER_HOLD_MAX {
            if evicted.freed >= goal {
                break;
            }
            let Some(block) = self.oldest_block(context) else { break };
            let freed = self.evict_block(block.offset, block.owner, context.now);
            evicted.freed += freed;
            if self.oldest_key_idle(context) > Some(block.idle_seconds) {
                evicted.unfair += freed;
            }
        }
        evicted
    }

    /// Returns the least recently used of a few blocks that no reader holds.
    fn oldest_block(&self, context: &mut SweepContext<'_>) -> Option<Block> {
        let samples = self.eviction_samples.load(Ordering::Relaxed);
        let mut oldest: Option<Block> = None;
        for _ in 0..samples {
            let (offset, owner) = self.arena().sample_block(context.random.next())?;
            if self.arena().pins().is_pinned(offset) {
                continue;
            }
            let index = ShardIndex(owner.shard);
            let mut guard = self.lock(index);
            let Some((_, part)) = guard.shard_mut(index).part_of(owner.database) else { continue };
            let Some(entry) = part.table.large_entry(owner.descriptor, offset) else { continue };
            let idle_seconds = match is_expired(&entry, context.now) {
                true => u16::MAX,
                false => idle_seconds(entry.stamp(), context.now),
            };
            if oldest.is_none_or(|block| block.idle_seconds < idle_seconds) {
                oldest = Some(Block { offset, owner, idle_seconds });
            }
        }
        oldest
    }

    /// Removes the entry of the block at `offset` if it is still there; returns the bytes that are
    /// free now.
    pub(crate) fn evict_block(&self, offset: u64, owner: Owner, now: UnixMs) -> u64 {
        let index = ShardIndex(owner.shard);
        let mut guard = self.lock(index);
        let shard = guard.shard_mut(index);
        let Some((database, part)) = shard.part_of(owner.database) else { return 0 };
        let Some(entry) = part.table.large_entry(owner.descriptor, offset) else { return 0 };
        let name = entry.key().to_vec();
        shard.evict_key(database, &name, now)
    }

    /// Returns for how long the least recently used of a few random keys has not been used.
    fn oldest_key_idle(&self, context: &mut SweepContext<'_>) -> Option<u16> {
        let samples = self.eviction_samples.load(Ordering::Relaxed);
        let index = self.random_shard(context.random);
        let mut guard = self.lock(index);
        let shard = guard.shard_mut(index);
        let (now, random) = (context.now, &mut *context.random);
        let keys = (0..samples).filter_map(|_| shard.sample(Victims::Small, now, random));
        keys.map(|sample| idle_seconds(sample.stamp, now)).max()
    }
}

impl Shard {
    /// Offers `samples` random keys to the pool.
    fn sample_candidates(
        &mut self,
        samples: u32,
        victims: Victims,
        now: UnixMs,
        random: &mut Prng,
    ) {
        let mut pool = std::mem::take(&mut self.eviction_pool);
        for _ in 0..samples {
            if let Some(sample) = self.sample(victims, now, random) {
                pool.offer(sample, now);
            }
        }
        self.eviction_pool = pool;
    }

    /// Returns a random key of any database.
    fn sample(&self, victims: Victims, now: UnixMs, random: &mut Prng) -> Option<Sample<'_>> {
        let total: u64 = self.databases().map(|(_, part)| part.table.len()).sum();
        if total == 0 {
            return None;
        }
        let mut position = random.below(total);
        let (database, part) = self.databases().find(|(_, part)| {
            let here = position < part.table.len();
            position = position.saturating_sub(part.table.len());
            here
        })?;
        let entry = part.table.entry(part.table.sample(random.next())?);
        if !victims.include(&entry) {
            return None;
        }
        // An expired key is the oldest there is.
        let oldest = stamp_of(now).wrapping_add(1);
        let stamp = if is_expired(&entry, now) { oldest } else { entry.stamp() };
        Some(Sample { database, key: entry.key(), stamp })
    }

    /// Removes the best candidate that is still what it was; returns the bytes that are free now.
    fn evict_best(&mut self, victims: Victims, now: UnixMs) -> Option<Freed> {
        while let Some(candidate) = self.eviction_pool.take(now) {
            if let Some(freed) = self.evict(&candidate, victims, now) {
                return Some(freed);
            }
        }
        None
    }

    /// Removes `candidate` unless it was used meanwhile or a reader holds it: its memory would
    /// stay. Returns the bytes that are free now.
    fn evict(&mut self, candidate: &Candidate, victims: Victims, now: UnixMs) -> Option<Freed> {
        let key = &self.key(&candidate.key);
        let table = &self.database(candidate.database)?.table;
        let id = table.find(key.hash, key.bytes)?;
        let entry = table.entry(id);
        if !is_expired(&entry, now) && entry.stamp() != candidate.stamp {
            return None;
        }
        if !victims.include(&entry) || table.is_pinned(id) {
            return None;
        }
        let is_large = entry.header().is_large();
        let bytes = self.evict_key(candidate.database, &candidate.key, now);
        Some(match is_large {
            true => Freed { small: 0, large: bytes },
            false => Freed { small: bytes, large: 0 },
        })
    }

    /// Removes the key `name`, if it is there; returns the bytes that are free now.
    pub fn evict_key(&mut self, database: DatabaseIndex, name: &[u8], now: UnixMs) -> u64 {
        let key = &self.key(name);
        let Some(part) = self.database(database) else { return 0 };
        let Some(id) = part.table.find(key.hash, key.bytes) else { return 0 };
        let entry = part.table.entry(id);
        let bytes = entry.memory_bytes();
        let removal = if is_expired(&entry, now) { Removal::Expired } else { Removal::Evicted };
        let mut recorder = Recorder::default();
        let mut place = Place { shard: self, recorder: &mut recorder, database, now };
        if place.remove(key, id, removal) { bytes } else { 0 }
    }

    /// Gives memory back: of slab pages that have become sparse, and of tables without keys.
    fn give_back(&mut self) {
        for database in (0..).map(DatabaseIndex).take(base::DATABASE_COUNT_MAX) {
            let Some(part) = self.database_mut(database) else { continue };
            for _ in 0..EVACUATIONS_PER_HOLD_MAX {
                if !part.table.evacuate() {
                    break;
                }
            }
            self.release_if_empty(database);
        }
    }
}
