//! Eviction: which keys are evicted when memory is needed.
//!
//! Each shard samples a few of its keys at a time and, as Redis does, remembers those of all
//! samples that the policy would evict first, so that a choice among five at a time comes close to
//! the best of the shard. So do all shards together of large entries, which are sampled where they
//! lie. Keys with a time to live are in a list of their table: where only they may be evicted,
//! samples are taken from that list, so that one among millions is found at once.

pub(crate) mod adaptive;
mod lfu;
mod lru;
pub(crate) mod policy;
pub(crate) mod pool;
mod random;
#[cfg(test)]
pub(crate) mod recorded;
pub(crate) mod spared;
mod ttl;

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use arena::layout::PAGE_BYTES;
use arena::pins::PinState;
use arena::{BlockOwner, Entry, EntryId, Table};
use base::prng::Prng;
use base::{DatabaseIndex, Key, KeyHasher, ShardIndex, UnixMs, key_slot};
use effects::Cause;

use crate::eviction::policy::{EvictionPolicy, Leaving, Room};
use crate::eviction::pool::{CANDIDATES_MAX, EvictionPool, Pooled};
use crate::eviction::spared::Spared;
use crate::keyspace::Keyspace;
use crate::memory_limit::SweepContext;
use crate::published::DatabaseCounts;
use crate::recorder::Recorder;
use crate::shard::{DatabaseShard, Shard, is_expired};
use crate::write::KeyWriter;

/// How many keys a choice looks at unless told: Redis's maxmemory-samples.
pub(crate) const SAMPLES_DEFAULT: u32 = 5;
/// A shard with fewer keys that may go remembers none: a sample is a good part of them, and what it
/// remembered would be a good part of their memory.
const REMEMBERING_KEYS_MIN: u64 = 128;
/// How many keys go during one hold of a shard.
const VICTIMS_PER_HOLD_MAX: u32 = 32;
/// How many of them are chosen at once: the cache misses of drawing for one hide those of the next.
const VICTIMS_PER_CHOICE_MAX: u64 = 4;
/// How many adopted values go for each time that extents are wanted: no extent is free afterwards.
const ADOPTED_VICTIMS_MAX: u32 = 8;
/// What of large entries goes at a time where the pins of many sessions have to be looked through.
const CROWDED_GOAL_BYTES: u64 = 4 << 20;
/// The part of the memory limit that goes at such a time at most.
const CROWDED_GOAL_SHARE: u64 = 128;
/// How many keys that are not new any more become candidates of the choice of one victim.
const LEAVING_MAX: usize = 4;
/// The windows of so many shards are looked at where a large entry is to go.
const LEAVING_SHARDS: u32 = 3;
/// How many do of a choice of several: ranked by what the window knows, they leave room among the
/// candidates for as many others as are to go.
const LEAVING_PER_CHOICE_MAX: usize = CANDIDATES_MAX - VICTIMS_PER_CHOICE_MAX as usize;
/// How many chains of random keys are asked of the cache at once.
const CHAINS_AT_ONCE: usize = 8;
/// How many keys a chain is taken to have.
const KEYS_PER_CHAIN: usize = 6;
/// How many slab pages are emptied during one hold of a shard.
const EVACUATIONS_PER_HOLD_MAX: u32 = 4;

/// Which keys a choice is made among, and how.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'c> {
    policy: EvictionPolicy,
    victims: Victims,
    samples: u32,
    spared: Spared<'c>,
    hasher: &'c KeyHasher,
}

impl Choice<'_> {
    /// Returns whether `entry` of `database` may be chosen.
    pub fn allows(self, database: DatabaseIndex, entry: &Entry<'_>) -> bool {
        self.includes(entry) && self.may_go(database, || self.hasher.hash(entry.key()))
    }

    /// Returns whether `entry` may be chosen unless it is spared, which asks for a hash.
    fn includes(self, entry: &Entry<'_>) -> bool {
        self.policy.allows(entry) && self.victims.include(entry)
    }

    /// Returns whether the key of `hash` in `database` is none of those that are spared.
    fn may_go(self, database: DatabaseIndex, hash: impl FnOnce() -> u64) -> bool {
        self.spared.is_empty() || !self.spared.includes(database, hash())
    }
}

/// A random key, or one that is not new any more.
#[derive(Debug)]
pub(crate) struct PooledKey {
    database: DatabaseIndex,
    /// What its key is found by.
    hash: u64,
    /// The key, in a table that has entries which their hashes do not find.
    name: Option<Box<[u8]>>,
    rank: u64,
}

/// A key that is not new any more, where it may be.
#[derive(Clone, Copy)]
struct LeavingKey {
    database: DatabaseIndex,
    hash: u64,
    /// As [`Leaving::rank`].
    rank: u64,
}

impl Pooled for PooledKey {
    fn rank(&self) -> u64 {
        self.rank
    }

    fn is_same(&self, other: &PooledKey) -> bool {
        self.hash == other.hash && self.database == other.database && self.name == other.name
    }
}

impl Keyspace {
    /// Returns how to choose among `victims` now.
    pub(crate) fn choice<'c>(&'c self, victims: Victims, spared: Spared<'c>) -> Choice<'c> {
        let policy = self.eviction_policy();
        let samples = policy.samples(self.eviction_samples.load(Ordering::Relaxed));
        Choice { policy, victims, samples, spared, hasher: self.hasher() }
    }

    /// Evicts keys of `shard` until about `goal` bytes are free, a bounded number, and empties
    /// slab pages. Returns the bytes of the evicted entries that are free now. The caller holds no
    /// guard.
    pub(crate) fn evict_from(
        &self,
        shard: ShardIndex,
        goal: u64,
        victims: Victims,
        context: &mut SweepContext<'_>,
    ) -> Freed {
        let choice = self.choice(victims, context.spared);
        let (large_goal, room) = (self.large_goal(goal), self.room());
        let mut drawn = Drawn::of(choice);
        let mut guard = self.lock(shard);
        let shard = guard.shard_mut(shard);
        let pool_bytes = shard.eviction_pool.memory_bytes();
        shard.eviction_pool.prepare(choice.policy);
        if shard.policy.observes {
            shard.policy.begin_choice();
            shard.policy.note_room(room);
        }
        let mut freed = Freed::default();
        // How large the first one is, tells how many go with the next choice.
        let (mut gone_count, mut at_once) = (0, 1);
        while gone_count < VICTIMS_PER_HOLD_MAX {
            let goal = if freed.large > 0 { large_goal } else { goal };
            let before = freed.bytes();
            if before >= goal {
                break;
            }
            shard.sample_candidates(at_once as usize, &mut drawn, choice, context);
            // Candidates that come from a window may have been deleted meanwhile: there are others.
            let may_be_gone = shard.policy.observes && !shard.eviction_pool.is_empty();
            let mut gone = 0;
            while gone < at_once && freed.bytes() < goal {
                let Some(one) = shard.evict_best(choice, context) else { break };
                freed.small += one.small;
                freed.large += one.large;
                gone += 1;
            }
            // The samples may have met nothing but keys that are spared.
            if gone == 0 && !may_be_gone && context.spared.is_empty() {
                break;
            }
            gone_count += gone.max(1) as u32;
            let mean = ((freed.bytes() - before) / gone.max(1)).max(1);
            let lacking = goal.saturating_sub(freed.bytes());
            let left = u64::from(VICTIMS_PER_HOLD_MAX.saturating_sub(gone_count));
            at_once = lacking.div_ceil(mean).min(VICTIMS_PER_CHOICE_MAX).min(left).max(1);
        }
        shard.give_back();
        let keys = choice.policy.candidates(shard.published.all_counts());
        if keys < REMEMBERING_KEYS_MIN {
            shard.eviction_pool = EvictionPool::default();
        }
        // Candidates with names are forgotten, so that what a shard remembers stays small.
        shard.eviction_pool.retain(|one| one.name.is_none());
        let pool_bytes_now = shard.eviction_pool.memory_bytes();
        drop(guard);
        // What large collections and blocks took is to be free when this returns.
        self.drop_retired();
        freed.large = freed.large.saturating_sub(self.arena().reclaim_deferred());
        if pool_bytes_now != pool_bytes {
            self.account.recharge(pool_bytes, pool_bytes_now);
        }
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

/// Keys that were drawn for a choice. Whoever evicts has it before the shard is locked and for all
/// choices, so that a choice allocates under the lock only where keys may be in several databases.
struct Drawn {
    found: Vec<(DatabaseIndex, EntryId)>,
    /// Keys that are not new any more.
    leaving: Vec<LeavingKey>,
}

impl Drawn {
    /// Returns it with room for what a choice as `choice` draws.
    fn of(choice: Choice<'_>) -> Drawn {
        let count = match choice.policy.is_volatile() {
            true => 0,
            false => VICTIMS_PER_CHOICE_MAX as usize * choice.samples as usize,
        };
        let leaving = if choice.policy.observes() { LEAVING_PER_CHOICE_MAX } else { 0 };
        Drawn { found: Vec::with_capacity(count), leaving: Vec::with_capacity(leaving) }
    }
}

/// A block that may be evicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    offset: u64,
    owner: BlockOwner,
    rank: u64,
    /// Its value lies elsewhere.
    is_adopted: bool,
    /// The policy spares it while there are others.
    is_new: bool,
}

impl Pooled for Block {
    fn rank(&self) -> u64 {
        self.rank
    }

    fn is_same(&self, other: &Block) -> bool {
        (self.offset, self.owner) == (other.offset, other.owner)
    }
}

/// A key that may be evicted, by what it takes to evict it.
#[derive(Clone, Copy)]
struct Victim {
    shard: ShardIndex,
    /// Where a large entry lies.
    block: Option<(u64, BlockOwner)>,
    rank: u64,
    is_new: bool,
}

impl From<Block> for Victim {
    fn from(block: Block) -> Victim {
        let Block { offset, owner, rank, is_new, .. } = block;
        Victim { shard: ShardIndex(owner.shard), block: Some((offset, owner)), rank, is_new }
    }
}

/// What evicting blocks came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlocksEvicted {
    /// Bytes that are free now; the blocks of adopted values, too small for anything, are none.
    pub freed: u64,
    /// Those of them whose place a small entry should have had, which the policy ranks higher.
    pub unfair: u64,
}

impl Keyspace {
    /// Evicts large entries, the best of a few blocks each time, until about `goal` bytes are free,
    /// a bounded number. Blocks are chosen where they lie: among millions of small keys, samples of
    /// keys would hardly meet a large one. Adopted values go in their turn, and bring nothing.
    pub(crate) fn evict_blocks(&self, goal: u64, context: &mut SweepContext<'_>) -> BlocksEvicted {
        let (goal, candidate_count) = (self.large_goal(goal), self.candidate_count());
        let mut evicted = BlocksEvicted::default();
        let mut adopted_count = 0;
        for _ in 0..VICTIMS_PER_HOLD_MAX {
            if evicted.freed >= goal || adopted_count == ADOPTED_VICTIMS_MAX {
                break;
            }
            let Some(block) = self.best_block(candidate_count, context) else {
                if context.spared.is_empty() { break } else { continue }
            };
            let freed = self.evict_block(block.offset, block.owner, context);
            if block.is_adopted {
                adopted_count += 1;
                continue;
            }
            evicted.freed += freed;
            if self.best_key_rank(candidate_count, context) > Some(block.rank) {
                evicted.unfair += freed;
            }
        }
        evicted.freed = evicted.freed.saturating_sub(self.arena().reclaim_deferred());
        evicted
    }

    /// Evicts until about `goal` bytes are free, whatever memory they are of, a bounded number of
    /// keys: the best of a few of all shards each time, since the best of one shard, which may have
    /// but a few dozen large entries, is no good choice. Returns the bytes that are free now. The
    /// caller holds no guard.
    pub(crate) fn evict_anywhere(
        &self,
        goal: u64,
        candidate_count: u64,
        context: &mut SweepContext<'_>,
    ) -> u64 {
        let mut freed = 0;
        for _ in 0..VICTIMS_PER_HOLD_MAX {
            if freed >= goal {
                break;
            }
            let shard = match self.best_anywhere(candidate_count, context) {
                Some(Victim { block: Some((offset, owner)), .. }) => {
                    freed += self.evict_block(offset, owner, context);
                    continue;
                }
                Some(Victim { shard, .. }) => shard,
                None => self.random_shard(candidate_count, context.random),
            };
            // Small entries give memory back by whole pages.
            let goal = (goal - freed).max(PAGE_BYTES);
            freed += self.evict_from(shard, goal, Victims::Any, context).bytes();
            break;
        }
        freed.saturating_sub(self.arena().reclaim_deferred())
    }

    /// Returns the key of the highest rank of a few of all shards, each as likely to be looked at
    /// as any other.
    fn best_anywhere(
        &self,
        candidate_count: u64,
        context: &mut SweepContext<'_>,
    ) -> Option<Victim> {
        let choice = self.choice(Victims::Any, context.spared);
        let samples = choice.policy.samples_anywhere(self.eviction_samples.load(Ordering::Relaxed));
        let victims = (0..samples).filter_map(|_| {
            let index = self.random_shard(candidate_count, context.random);
            self.lock(index).shard_mut(index).sample_victim(choice, context)
        });
        let preference = |victim: &Victim| (!victim.is_new, victim.rank);
        let best = victims.max_by_key(preference)?;
        if best.block.is_none() || !choice.policy.observes() {
            return Some(best);
        }
        let leaving = self.leaving_blocks(choice, candidate_count, context);
        leaving.into_iter().map(Victim::from).chain([best]).max_by_key(preference)
    }

    /// Returns how much is to go where `goal` bytes of large entries are wanted: more, where each
    /// time costs a long look at the pins.
    fn large_goal(&self, goal: u64) -> u64 {
        match self.arena().pins().are_crowded() {
            true => goal.max(CROWDED_GOAL_BYTES.min(self.maxmemory() / CROWDED_GOAL_SHARE)),
            false => goal,
        }
    }

    /// Returns the block of the highest rank of a few, and of those that earlier choices have met,
    /// that no reader holds and that may go.
    fn best_block(&self, candidate_count: u64, context: &mut SweepContext<'_>) -> Option<Block> {
        let choice = self.choice(Victims::Any, context.spared);
        let samples = choice.policy.block_samples(self.eviction_samples.load(Ordering::Relaxed));
        let mut drawn = Vec::with_capacity(samples as usize);
        for _ in 0..samples {
            let among_all = self.sample_block(choice, context);
            let volatile = || self.sample_volatile_block(choice, candidate_count, context);
            drawn.extend(among_all.or_else(volatile));
        }
        if choice.policy.observes() {
            for _ in 0..LEAVING_SHARDS {
                drawn.extend(self.leaving_blocks(choice, candidate_count, context));
            }
        }
        let mut pool = self.block_pool();
        pool.prepare(choice.policy);
        let old = drawn.iter().filter(|block| !block.is_new);
        old.for_each(|block| pool.offer(*block));
        drop(pool);
        self.remembered_block(choice, context)
            .or_else(|| drawn.into_iter().max_by_key(|block| (!block.is_new, block.rank)))
    }

    /// Returns the block that should go first of those that choices have met, if there is one that
    /// may go and was not used since.
    fn remembered_block(
        &self,
        choice: Choice<'_>,
        context: &mut SweepContext<'_>,
    ) -> Option<Block> {
        for _ in 0..CANDIDATES_MAX {
            let known = self.block_pool().take()?;
            let Some(block) = self.ranked(known.offset, known.owner, choice, context) else {
                continue;
            };
            // A lower rank than before is that of an entry that was used meanwhile.
            if block.rank >= known.rank || choice.policy.is_random() {
                return Some(Block { is_new: false, ..block });
            }
            if !block.is_new {
                self.block_pool().offer(block);
            }
        }
        None
    }

    fn block_pool(&self) -> MutexGuard<'_, EvictionPool<Block>> {
        self.block_pool.lock().expect("no holder of the pool panics")
    }

    /// Returns the blocks of some keys of a random shard that are not new any more.
    fn leaving_blocks(
        &self,
        choice: Choice<'_>,
        candidate_count: u64,
        context: &mut SweepContext<'_>,
    ) -> Vec<Block> {
        let index = self.random_shard(candidate_count, context.random);
        let room = self.room();
        let leaving = {
            let mut guard = self.lock(index);
            let shard = guard.shard_mut(index);
            shard.policy.note_room(room);
            let mut leaving = Vec::new();
            shard.leaving(1, &mut leaving);
            let blocks = leaving.into_iter().filter_map(|leaving| {
                let LeavingKey { database, hash, .. } = leaving;
                let table = &shard.database(database)?.table;
                table.owned_block(&table.entry(table.find_hash(hash)?))
            });
            blocks.collect::<Vec<_>>()
        };
        let ranked = leaving.into_iter().filter_map(|(offset, owner)| {
            // It is new no more, though it may have been used since others came that are.
            let block = self.ranked(offset, owner, choice, context)?;
            Some(Block { is_new: false, ..block })
        });
        ranked.collect()
    }

    /// Returns what memory there is for keys.
    fn room(&self) -> Room {
        Room { maxmemory: self.maxmemory(), used: self.used_memory() }
    }

    /// Returns a random block, if it may go.
    fn sample_block(&self, choice: Choice<'_>, context: &mut SweepContext<'_>) -> Option<Block> {
        let (offset, owner) = self.arena().sample_block(context.random.next())?;
        self.ranked(offset, owner, choice, context)
    }

    /// Returns the block of a random key with a time to live, if it has one: where only such keys
    /// may go, few blocks may be theirs.
    fn sample_volatile_block(
        &self,
        choice: Choice<'_>,
        candidate_count: u64,
        context: &mut SweepContext<'_>,
    ) -> Option<Block> {
        if !choice.policy.is_volatile() {
            return None;
        }
        let index = self.random_shard(candidate_count, context.random);
        let (offset, owner) = {
            let mut guard = self.lock(index);
            let shard = guard.shard_mut(index);
            let (database, position) = shard.random_position(choice.policy, context.random)?;
            shard.database(database)?.table.volatile_block(position)?
        };
        self.ranked(offset, owner, choice, context)
    }

    /// Returns the block at `offset` with its rank, if it is still there and may go.
    fn ranked(
        &self,
        offset: u64,
        owner: BlockOwner,
        choice: Choice<'_>,
        context: &mut SweepContext<'_>,
    ) -> Option<Block> {
        if self.arena().pins().state_of(offset) == PinState::Pinned {
            return None;
        }
        let index = ShardIndex(owner.shard);
        let mut guard = self.lock(index);
        let shard = guard.shard_mut(index);
        let (database, _) = shard.part_of(owner.database)?;
        let table = &shard.database(database)?.table;
        let entry = table.large_entry(owner.descriptor, offset)?;
        if !choice.allows(database, &entry) {
            return None;
        }
        shard.policy.begin_choice();
        let is_new = shard.policy.is_new(entry.mark());
        let rank = shard.eviction_rank(database, &entry, context);
        Some(Block { offset, owner, rank, is_adopted: entry.is_adopted(), is_new })
    }

    /// Removes the entry of the block at `offset` if it is still there and may go; returns the
    /// bytes that are free now.
    pub(crate) fn evict_block(
        &self,
        offset: u64,
        owner: BlockOwner,
        context: &SweepContext<'_>,
    ) -> u64 {
        let choice = self.choice(Victims::Any, context.spared);
        let index = ShardIndex(owner.shard);
        let mut guard = self.lock(index);
        let shard = guard.shard_mut(index);
        let Some((database, part)) = shard.part_of(owner.database) else { return 0 };
        let Some(entry) = part.table.large_entry(owner.descriptor, offset) else { return 0 };
        if !choice.allows(database, &entry) {
            return 0;
        }
        let name = entry.key().to_vec();
        shard.evict_key(database, &name, context.now)
    }

    /// Returns the highest rank of a few random small keys.
    fn best_key_rank(&self, candidate_count: u64, context: &mut SweepContext<'_>) -> Option<u64> {
        let choice = self.choice(Victims::Small, context.spared);
        let index = self.random_shard(candidate_count, context.random);
        let mut guard = self.lock(index);
        let shard = guard.shard_mut(index);
        let ranks = (0..choice.samples).filter_map(|_| {
            let (database, entry) = shard.sample_entry(choice, context.random)?;
            Some(shard.eviction_rank(database, &entry, context))
        });
        ranks.max()
    }
}

impl Shard {
    /// Offers so many random keys to the pool that as many `victims` can be chosen.
    fn sample_candidates(
        &mut self,
        victims: usize,
        drawn: &mut Drawn,
        choice: Choice<'_>,
        context: &mut SweepContext<'_>,
    ) {
        let mut pool = std::mem::take(&mut self.eviction_pool);
        self.leaving(victims, &mut drawn.leaving);
        self.offer_leaving(&drawn.leaving, &mut pool, choice, context);
        // What leaves the window is looked at as well.
        let count = victims * choice.samples as usize - drawn.leaving.len().min(victims);
        // Those that may go now and those that may go next: they have been met long ago, and are
        // asked of the cache while others are drawn and ranked.
        self.prefetch_buckets(pool.best(2 * victims));
        match choice.policy.is_volatile() {
            true => self.offer_volatile(count, &mut pool, choice, context),
            false => self.draw(count, &mut drawn.found, choice, context),
        }
        self.prefetch_entries(pool.best(2 * victims));
        for (database, id) in drawn.found.drain(..) {
            let part = self.database(database).expect("a key of it was drawn");
            self.offer(&mut pool, (database, part, &part.table.entry(id)), choice, context);
        }
        self.prefetch_removals(pool.best(2 * victims));
        // What the policy remembers of a key is one line, so that it need not be asked for before.
        pool.best(victims).iter().for_each(|one| self.policy.prefetch(one.database, one.hash));
        self.eviction_pool = pool;
    }

    /// Offers the keys of `leaving` that may go to `pool`.
    fn offer_leaving(
        &self,
        leaving: &[LeavingKey],
        pool: &mut EvictionPool<PooledKey>,
        choice: Choice<'_>,
        context: &mut SweepContext<'_>,
    ) {
        // What the window knows is enough to rank them: an entry is looked up where it is to go.
        let is_simple = self.is_simple(choice);
        if !is_simple {
            leaving.iter().for_each(|one| self.prefetch_bucket(one.database, one.hash));
            leaving.iter().for_each(|one| self.prefetch_entry(one.database, one.hash));
        }
        for &LeavingKey { database, hash, mut rank } in leaving {
            let mut name = None;
            if !is_simple {
                let Some(part) = self.database(database) else { continue };
                let Some(id) = part.table.find_hash(hash) else { continue };
                let entry = part.table.entry(id);
                if !choice.includes(&entry) {
                    continue;
                }
                rank = self.eviction_rank(database, &entry, context);
                name = part.table.spills().then(|| entry.key().into());
            }
            if pool.wants(rank) && choice.may_go(database, || hash) {
                pool.offer(PooledKey { database, hash, name, rank });
            }
        }
    }

    /// Asks the cache for the parts of the index in which `candidates` are.
    fn prefetch_buckets(&self, candidates: &[PooledKey]) {
        candidates.iter().for_each(|one| self.prefetch_bucket(one.database, one.hash));
    }

    /// Asks the cache for `candidates`, once the index is there.
    fn prefetch_entries(&self, candidates: &[PooledKey]) {
        candidates.iter().for_each(|one| self.prefetch_entry(one.database, one.hash));
    }

    /// Asks the cache for what is looked at when `candidates` go.
    fn prefetch_removals(&self, candidates: &[PooledKey]) {
        for PooledKey { database, hash, .. } in candidates {
            if let Some(part) = self.database(*database) {
                part.table.prefetch_removal(*hash);
            }
        }
    }

    /// Offers `count` random keys with times to live to `pool`.
    fn offer_volatile(
        &self,
        count: usize,
        pool: &mut EvictionPool<PooledKey>,
        choice: Choice<'_>,
        context: &mut SweepContext<'_>,
    ) {
        for _ in 0..count {
            let random = self.random_entry(choice.policy, context.random);
            if let Some((database, entry)) = random {
                let part = self.database(database).expect("a key of it was drawn");
                self.offer(pool, (database, part, &entry), choice, context);
            }
        }
    }

    /// Draws `count` random keys, those of a chain together. Most of the time that it takes to
    /// look at them is that of the cache misses, which do not wait for each other so.
    fn draw(
        &self,
        count: usize,
        found: &mut Vec<(DatabaseIndex, EntryId)>,
        choice: Choice<'_>,
        context: &mut SweepContext<'_>,
    ) {
        // As many chains at most as would do if each had one key.
        let mut chains_left = count;
        while found.len() < count && chains_left > 0 {
            let chains = (count - found.len()).div_ceil(KEYS_PER_CHAIN).min(CHAINS_AT_ONCE);
            chains_left = chains_left.saturating_sub(chains);
            let mut places = [None; CHAINS_AT_ONCE];
            for place in &mut places[..chains] {
                let position = self.random_position(choice.policy, context.random);
                *place = position.map(|(database, _)| (database, context.random.next()));
                if let Some((database, number)) = *place {
                    self.table(database).prefetch_sample(number);
                }
            }
            for (database, number) in places.into_iter().flatten() {
                let table = self.table(database);
                table.sample_chain(number, count - found.len(), |id| {
                    table.prefetch_found(id);
                    found.push((database, id));
                });
            }
        }
    }

    /// Offers `entry`, which was drawn, to `pool` if it may go.
    #[inline(always)]
    fn offer(
        &self,
        pool: &mut EvictionPool<PooledKey>,
        (database, part, entry): (DatabaseIndex, &DatabaseShard, &Entry<'_>),
        choice: Choice<'_>,
        context: &mut SweepContext<'_>,
    ) {
        if !choice.includes(entry) {
            return;
        }
        let candidate = policy::Candidate {
            object: part.object_of(*entry),
            tracking: &self.published.tracking,
            now: context.now,
        };
        let rank = self.policy.rank_drawn(&candidate, context.random);
        if pool.wants(rank) {
            self.offer_ranked(pool, (database, entry), rank, choice);
        }
    }

    /// As [`Shard::offer`], of an entry whose `rank` the pool wants, which few have.
    #[inline(never)]
    fn offer_ranked(
        &self,
        pool: &mut EvictionPool<PooledKey>,
        (database, entry): (DatabaseIndex, &Entry<'_>),
        rank: u64,
        choice: Choice<'_>,
    ) {
        let hash = choice.hasher.hash(entry.key());
        if choice.may_go(database, || hash) {
            let name = self.table(database).spills().then(|| entry.key().into());
            pool.offer(PooledKey { database, hash, name, rank });
        }
    }

    fn table(&self, database: DatabaseIndex) -> &Table {
        &self.database(database).expect("a key of it was drawn").table
    }

    /// Returns a random key of any database that may be chosen and that no reader holds, if the one
    /// looked at is so.
    fn sample_victim(&self, choice: Choice<'_>, context: &mut SweepContext<'_>) -> Option<Victim> {
        let (database, entry) = self.sample_entry(choice, context.random)?;
        let block = self.database(database)?.table.owned_block(&entry);
        let pins = self.account().arena().pins();
        if block.is_some_and(|(offset, _)| pins.state_of(offset) == PinState::Pinned) {
            return None;
        }
        self.policy.begin_choice();
        let is_new = self.policy.is_new(entry.mark());
        let rank = self.eviction_rank(database, &entry, context);
        Some(Victim { shard: self.index(), block, rank, is_new })
    }

    /// Returns a random entry with its database, if it may be chosen.
    fn sample_entry(
        &self,
        choice: Choice<'_>,
        random: &mut Prng,
    ) -> Option<(DatabaseIndex, Entry<'_>)> {
        let found = self.random_entry(choice.policy, random);
        found.filter(|(database, entry)| choice.allows(*database, entry))
    }

    /// Returns a random entry of those that `policy` draws from, with its database; of a policy for
    /// keys with a time to live it may go unless it is spared.
    fn random_entry(
        &self,
        policy: EvictionPolicy,
        random: &mut Prng,
    ) -> Option<(DatabaseIndex, Entry<'_>)> {
        let (database, position) = self.random_position(policy, random)?;
        let table = &self.database(database)?.table;
        let entry = match policy.is_volatile() {
            true => table.volatile_entry(position),
            false => table.entry(table.sample(random.next())?),
        };
        Some((database, entry))
    }

    /// Replaces `keys` by a few for each of so many `victims` that are not new any more, each in
    /// each database that it may be in.
    fn leaving(&self, victims: usize, keys: &mut Vec<LeavingKey>) {
        keys.clear();
        if !self.policy.observes {
            return;
        }
        let count = (LEAVING_MAX * victims).min(LEAVING_PER_CHOICE_MAX);
        // Their hashes have the database in them, which is not known: each is tried.
        let mut databases = self.databases().map(|(database, _)| database);
        let Some(first) = databases.next() else { return };
        for Leaving { salted, rank } in
            std::iter::from_fn(|| self.policy.leave_window()).take(count)
        {
            keys.push(LeavingKey { database: first, hash: adaptive::salted(first, salted), rank });
        }
        let count = keys.len();
        for database in databases {
            for index in 0..count {
                let LeavingKey { hash, rank, .. } = keys[index];
                let salted = adaptive::salted(first, hash);
                keys.push(LeavingKey { database, hash: adaptive::salted(database, salted), rank });
            }
        }
    }

    /// Returns whether each key of the shard may be chosen, is known by its hash alone, and is in
    /// the one database that there is.
    fn is_simple(&self, choice: Choice<'_>) -> bool {
        let mut databases = self.databases();
        let spills = databases.next().is_some_and(|(_, part)| part.table.spills());
        !spills
            && databases.next().is_none()
            && choice.victims == Victims::Any
            && !choice.policy.is_volatile()
    }

    /// Returns how soon `entry` of `database` should go.
    fn eviction_rank(
        &self,
        database: DatabaseIndex,
        entry: &Entry<'_>,
        context: &mut SweepContext<'_>,
    ) -> u64 {
        let part = self.database(database).expect("the entry is in its table");
        let candidate = policy::Candidate {
            object: part.object_of(*entry),
            tracking: &self.published.tracking,
            now: context.now,
        };
        self.policy.rank(&candidate, context.random)
    }

    /// Returns a database and a position in it, each of the keys that `policy` may evict as likely.
    fn random_position(
        &self,
        policy: EvictionPolicy,
        random: &mut Prng,
    ) -> Option<(DatabaseIndex, u64)> {
        let count = |counts: DatabaseCounts| policy.candidates(counts);
        let total: u64 = self.databases().map(|(_, part)| count(part.counts())).sum();
        if total == 0 {
            return None;
        }
        let mut position = random.below(total);
        for (database, part) in self.databases() {
            let here = count(part.counts());
            if position < here {
                return Some((database, position));
            }
            position -= here;
        }
        None
    }

    /// Removes the best candidate that is still what it was; returns the bytes that are free now.
    fn evict_best(&mut self, choice: Choice<'_>, context: &mut SweepContext<'_>) -> Option<Freed> {
        while let Some(candidate) = self.eviction_pool.take() {
            if let Some(freed) = self.evict(candidate, choice, context) {
                return Some(freed);
            }
        }
        None
    }

    /// Removes `candidate` unless a reader holds it, as its memory would stay, or its rank is lower
    /// than it was offered with: it was used meanwhile, or has a cost, of which the window knows
    /// nothing. Of a policy with a window it is offered then with the rank that it has. Returns the
    /// bytes that are free now.
    fn evict(
        &mut self,
        candidate: PooledKey,
        choice: Choice<'_>,
        context: &mut SweepContext<'_>,
    ) -> Option<Freed> {
        let PooledKey { database, hash, .. } = candidate;
        let table = &self.database(database)?.table;
        let id = match &candidate.name {
            Some(name) => table.find(hash, name)?,
            None => table.find_hash(hash)?,
        };
        let entry = table.entry(id);
        if !choice.includes(&entry) || !choice.may_go(database, || hash) {
            return None;
        }
        let rank = self.eviction_rank(database, &entry, context);
        if rank < candidate.rank && !choice.policy.is_random() {
            // Where nothing leaves a window all candidates were looked at, so that it was used.
            if self.policy.observes {
                self.eviction_pool.offer(PooledKey { rank, ..candidate });
            }
            return None;
        }
        let is_large = entry.header().is_large();
        let name = entry.key().to_vec();
        // A snapshot is given its bucket only now that the key is to go. It may hold the value of a
        // large entry instead of a copy, so that pins are asked for afterwards.
        self.before_change(database, hash);
        if self.table(database).is_pinned(id) {
            return None;
        }
        let key = Key { bytes: &name, hash, slot: key_slot(&name), shard: self.index() };
        let bytes = self.evict_entry(database, &key, id, context.now);
        Some(match is_large {
            true => Freed { small: 0, large: bytes },
            false => Freed { small: bytes, large: 0 },
        })
    }

    /// Removes the key `name`, if it is there; returns the bytes that are free now.
    pub fn evict_key(&mut self, database: DatabaseIndex, name: &[u8], now: UnixMs) -> u64 {
        let key = &self.key(name);
        self.before_change(database, key.hash);
        let Some(part) = self.database(database) else { return 0 };
        let Some(id) = part.table.find(key.hash, key.bytes) else { return 0 };
        self.evict_entry(database, key, id, now)
    }

    /// Removes the entry at `id`, which is that of `key`; returns the bytes that are free now.
    fn evict_entry(
        &mut self,
        database: DatabaseIndex,
        key: &Key<'_>,
        id: EntryId,
        now: UnixMs,
    ) -> u64 {
        let part = self.database(database).expect("it has the entry");
        let entry = part.object(id);
        // What lies in upload memory is no room for anybody but its session.
        let bytes = entry.arena_bytes();
        let cause = if is_expired(&entry, now) { Cause::Expired } else { Cause::Evicted };
        let mut recorder = Recorder::default();
        let counts_access = false;
        let recorder = &mut recorder;
        let mut writer =
            KeyWriter { shard: self, recorder, database, now, counts_access, event: "" };
        let is_free = writer.remove(key, id, cause);
        self.leave_unserved(recorder);
        if is_free { bytes } else { 0 }
    }

    /// Gives memory back: of slab pages that have become sparse, and of tables without keys.
    fn give_back(&mut self) {
        for database in (0..).map(DatabaseIndex).take(self.database_end) {
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
