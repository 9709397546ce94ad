//! The memory limit: what counts towards it, and how memory is freed when it is reached.
//!
//! `maxmemory` bounds the arena (index, slab pages, extents, its allocators' lists) and the private
//! bytes that their owners charge here: connection buffers, backlog, watches, per-slot counts, the
//! lists of tables. The arena gets what the private bytes leave.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arena::{Arena, NeedRoom, Region, Slid, SlideBudget};
use base::prng::Prng;
use base::{SLOT_COUNT, ShardIndex, UnixMs};

use collections::Limits;
use rdb::Version;

use crate::deferred_free::RetiredList;
use crate::eviction::Victims;
use crate::eviction::spared::Spared;
use crate::fit::Fit;
use crate::keyspace::Keyspace;
use crate::segment_rebalance::ReclaimBy;

/// maxmemory-eviction-tenacity unless told.
pub(crate) const TENACITY_DEFAULT: u32 = 10;
/// In how many holds of a shard room is made at that tenacity, before the caller has to ask again;
/// each evicts a bounded number of keys.
const EVICTION_ROUNDS: u64 = 64;
/// As above, at any tenacity.
const EVICTION_ROUNDS_MIN: u64 = 8;
const EVICTION_ROUNDS_MAX: u64 = 1 << 20;
/// The share of these for what earlier commands have brought above the limit.
const REPAYING_SHARE: u64 = 8;
/// One hold more for so many bytes that are wanted.
const BYTES_PER_EXTRA_ROUND: u64 = 1024;
/// What goes at once where a small entry lacks room, as each lack costs a command that is run
/// again: one in so many bytes of the limit, so that all shards together have little to spare.
const SPARE_SHARE: u64 = 1 << 15;
/// As above, at any limit.
const SPARE_BYTES_MAX: u64 = 4096;
/// How many holds may bring nothing before room is given up: shards that are drawn may have no
/// other keys than those that are spared, or whose values readers hold.
const FRUITLESS_ROUNDS_MAX: u32 = 32;

/// The index takes its memory by pages of 16 KiB, for a hundred keys at a time in a small shard:
/// for each byte of an entry that goes it does without so many.
const INDEX_BYTES_PER_EVICTED_BYTE: u64 = 64;
/// Whoever lacks as much of the index, or a segment, has a segment emptied.
const INDEX_LACK_MAX: u64 = 1 << 20;

/// The share of the memory limit by which it may be passed for a while, by copies of what is there
/// already: that much is always repaid soon.
const OVERSHOOT_PERCENT_MAX: u64 = 5;
/// As above, at any limit.
const OVERSHOOT_BYTES_MIN: u64 = 16 << 20;

/// What making room needs from outside.
pub struct SweepContext<'a> {
    /// The time, which decides who was used last.
    pub now: UnixMs,
    /// Chooses the keys that are looked at.
    pub random: &'a mut Prng,
    /// The keys that stay.
    pub spared: Spared<'a>,
}

impl<'a> SweepContext<'a> {
    /// Returns the context of a sweep in which any key may go.
    pub fn new(now: UnixMs, random: &'a mut Prng) -> SweepContext<'a> {
        SweepContext { now, random, spared: Spared::NONE }
    }

    /// Returns the same context, in which `spared` stay.
    pub fn sparing(self, spared: Spared<'a>) -> SweepContext<'a> {
        SweepContext { spared, ..self }
    }
}

/// Bytes against the limit.
pub(crate) struct MemoryAccount {
    arena: Arc<Arena>,
    /// What waits to be freed.
    pub retired: RetiredList,
    /// How long collections stay compact; shards have copies.
    collection_limits: Mutex<Limits>,
    /// Counts the changes of these.
    collection_limits_version: AtomicU64,
    /// The number of the version in which values leave as bytes.
    export_version: AtomicU16,
    maxmemory: AtomicU64,
    pub private: AtomicU64,
    /// What of them goes with the keys.
    pub of_keys: AtomicU64,
    /// Held while the arena's limit is computed and set, so that the last one set is the latest.
    limit: Mutex<()>,
    /// Counts what may have brought memory above the limit: a lower limit, an overshoot, more
    /// private bytes. The arena's limited allocations cannot.
    suspicions: AtomicU64,
    /// How many of them were there when memory was last found within the limit.
    cleared: AtomicU64,
    /// The private bytes of the arena that were seen last.
    arena_private: AtomicU64,
}

impl MemoryAccount {
    pub fn new(arena: Arc<Arena>) -> MemoryAccount {
        MemoryAccount {
            arena,
            retired: RetiredList::default(),
            collection_limits: Mutex::default(),
            collection_limits_version: AtomicU64::new(0),
            export_version: AtomicU16::new(Version::NEWEST.number()),
            maxmemory: AtomicU64::new(0),
            private: AtomicU64::new(0),
            of_keys: AtomicU64::new(0),
            limit: Mutex::new(()),
            suspicions: AtomicU64::new(0),
            cleared: AtomicU64::new(0),
            arena_private: AtomicU64::new(0),
        }
    }

    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    pub fn slots_per_shard(&self) -> usize {
        SLOT_COUNT / self.arena.config().shard_count as usize
    }

    pub fn charge(&self, bytes: u64) {
        self.private.fetch_add(bytes, Ordering::Relaxed);
        self.apply_limit();
    }

    pub fn discharge(&self, bytes: u64) {
        let before = self.private.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes discharged of {before}");
        self.apply_limit();
    }

    /// Gives memory back to the system that the arena has touched and nothing uses, where that and
    /// the private bytes together are above the limit: private memory has no use for it.
    pub fn give_back_excess(&self) {
        let usage = self.arena.usage();
        let private = self.private.load(Ordering::Relaxed) + usage.private_bytes;
        let maxmemory = self.maxmemory.load(Ordering::Relaxed);
        let excess = (usage.touched_bytes + private).saturating_sub(maxmemory);
        if maxmemory != 0 && excess > 0 {
            self.arena.give_back(excess);
        }
    }

    /// Takes `before` bytes that were charged for `after` bytes.
    #[cold]
    pub fn recharge(&self, before: u64, after: u64) {
        if after > before {
            self.charge(after - before);
        } else {
            self.discharge(before - after);
        }
    }

    /// As [`MemoryAccount::recharge`], of what goes with the keys of a shard.
    #[cold]
    pub fn recharge_keys(&self, before: u64, after: u64) {
        // Wraps where it falls.
        self.of_keys.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        self.recharge(before, after);
    }

    /// Makes the next write check the limit if the arena's own lists have grown, which they do by
    /// themselves. Called where an allocation failed, which is when these lists matter.
    fn note_arena_lists(&self) {
        let bytes = self.arena.usage().private_bytes;
        if bytes > self.arena_private.swap(bytes, Ordering::Relaxed) {
            self.suspect_overshoot();
        }
    }

    pub fn set_collection_limits(&self, limits: Limits) {
        let mut current = self.collection_limits.lock().expect("no holder of the limits panics");
        if *current != limits {
            *current = limits;
            self.collection_limits_version.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn set_export_version(&self, version: Version) {
        self.export_version.store(version.number(), Ordering::Relaxed);
    }

    pub fn export_version(&self) -> Version {
        let number = self.export_version.load(Ordering::Relaxed);
        Version::new(number).expect("only versions are stored")
    }

    /// Returns the limits of collections with their version, unless it is `known`.
    #[inline]
    pub fn newer_collection_limits(&self, known: u64) -> Option<(Limits, u64)> {
        // Relaxed: a shard that sees a change late stores as before until then.
        if self.collection_limits_version.load(Ordering::Relaxed) == known {
            return None;
        }
        let limits = self.collection_limits.lock().expect("no holder of the limits panics");
        Some((*limits, self.collection_limits_version.load(Ordering::Relaxed)))
    }

    /// Refuses `bytes` more of private memory where they would pass the limit.
    ///
    /// # Errors
    /// NeedRoom of private memory.
    pub fn admit(&self, bytes: u64) -> Result<(), NeedRoom> {
        match self.excess_with(bytes) {
            0 => Ok(()),
            _ => Err(NeedRoom { bytes, region: Region::Private }),
        }
    }

    /// Returns by how much `bytes` more would bring memory above the limit.
    pub fn excess_with(&self, bytes: u64) -> u64 {
        let maxmemory = self.maxmemory.load(Ordering::Relaxed);
        if maxmemory == 0 {
            return 0;
        }
        let usage = self.arena.usage();
        let private = self.private.load(Ordering::Relaxed) + usage.private_bytes;
        (usage.used_bytes() + private + bytes).saturating_sub(maxmemory)
    }

    /// Returns whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.maxmemory.load(Ordering::Relaxed) != 0
    }

    /// Makes the next write check whether memory is above the limit.
    pub fn suspect_overshoot(&self) {
        if self.is_limited() {
            self.suspicions.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn set_maxmemory(&self, bytes: u64) {
        let _limit = self.limit.lock().expect("no holder of the limit panics");
        self.maxmemory.store(bytes, Ordering::Relaxed);
        self.set_arena_limit();
    }

    fn apply_limit(&self) {
        if self.maxmemory.load(Ordering::Relaxed) != 0 {
            let _limit = self.limit.lock().expect("no holder of the limit panics");
            self.set_arena_limit();
        }
    }

    /// The caller holds `limit`.
    fn set_arena_limit(&self) {
        let maxmemory = self.maxmemory.load(Ordering::Relaxed);
        let private = self.private.load(Ordering::Relaxed);
        // 0 would mean no limit at all.
        let limit = if maxmemory == 0 { 0 } else { maxmemory.saturating_sub(private).max(1) };
        self.arena.set_limit(limit);
        self.suspect_overshoot();
    }
}

impl Keyspace {
    /// Returns the memory limit in bytes; 0 is none.
    #[inline]
    pub fn maxmemory(&self) -> u64 {
        self.account.maxmemory.load(Ordering::Relaxed)
    }

    /// Returns by how many bytes memory may pass its limit for a while: a twentieth of it, and no
    /// less than 16 MiB.
    pub fn overshoot_bytes_max(&self) -> u64 {
        (self.maxmemory() / 100 * OVERSHOOT_PERCENT_MAX).max(OVERSHOOT_BYTES_MIN)
    }

    /// Returns how much of that the commands of one EXEC may take: seven eighths, because the
    /// system gives whole pages, and its allocator keeps some of what was freed.
    pub fn transaction_overshoot_bytes_max(&self) -> u64 {
        let most = self.overshoot_bytes_max();
        most - most / 8
    }

    /// Returns how many bytes the unsent replies of one connection may take, of which `counted` are
    /// charged already: what the limit leaves of the memory that was ever touched, and half of the
    /// overshoot; no limit without one. That half is had where nothing is left too, as after a
    /// lower limit: a client that reads still gets its reply then. The other half is what the
    /// system's allocator keeps of buffers that are freed.
    pub fn reply_bytes_max(&self, counted: u64) -> u64 {
        let maxmemory = self.maxmemory();
        if maxmemory == 0 {
            return u64::MAX;
        }
        let own = self.overshoot_bytes_max() / 2;
        let usage = self.arena().usage();
        let private = self.account.private.load(Ordering::Relaxed) + usage.private_bytes;
        let taken = usage.touched_bytes.max(usage.used_bytes()) + private;
        ((maxmemory + own).saturating_sub(taken) + counted).max(own)
    }

    /// Sets the memory limit in bytes; 0 is none. Memory in use above a lower limit goes as later
    /// commands make room.
    pub fn set_maxmemory(&self, bytes: u64) {
        self.account.set_maxmemory(bytes);
        self.want_access_reports();
    }

    /// Sets how long a command evicts before it goes on, from 0 to 100:
    /// maxmemory-eviction-tenacity. A write always gets the memory that it needs itself, or is
    /// refused.
    pub fn set_eviction_tenacity(&self, tenacity: u32) {
        self.eviction_tenacity.store(tenacity, Ordering::Relaxed);
    }

    /// Returns the bytes in use: the arena's and the private ones.
    pub fn used_memory(&self) -> u64 {
        let usage = self.arena().usage();
        usage.used_bytes() + usage.private_bytes + self.account.private.load(Ordering::Relaxed)
    }

    /// Returns whether keys may go unasked now, by eviction or as their time is over: not while no
    /// write is admitted, as what goes is a change like any other.
    #[inline]
    pub fn may_remove(&self) -> bool {
        !self.admission().stops_all()
    }

    /// Returns the private bytes that count towards the limit, those of the arena included.
    pub fn private_bytes(&self) -> u64 {
        self.account.private.load(Ordering::Relaxed) + self.arena().usage().private_bytes
    }

    /// Counts `bytes` of private memory towards the limit.
    pub fn charge(&self, bytes: u64) {
        self.account.charge(bytes);
    }

    /// Returns whether `bytes` more of private memory would pass the limit.
    pub fn lacks_room(&self, bytes: u64) -> bool {
        self.account.excess_with(bytes) > 0
    }

    /// Makes the next write check whether memory is above the limit: upload memory has been made,
    /// which the arena counts without checking the limit.
    pub fn suspect_overshoot(&self) {
        self.account.suspect_overshoot();
    }

    /// Takes back `bytes` that were charged.
    ///
    /// # Panics
    /// When less was charged.
    pub fn discharge(&self, bytes: u64) {
        self.account.discharge(bytes);
    }

    /// Returns whether more memory is in use than the limit allows. Costs two loads unless
    /// something has happened that may have brought it above.
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        let account = &*self.account;
        let suspicions = account.suspicions.load(Ordering::Relaxed);
        account.cleared.load(Ordering::Relaxed) < suspicions && self.check_limit(suspicions)
    }

    /// Frees memory for `need`, which a write to `shard` lacked: slides blocks together and
    /// releases free segments, then evicts as the policy allows, and where the memory belongs to
    /// another region takes a segment from that one; also repays what is above the limit. The
    /// caller holds no guard; one shard is locked at a time. After Ok it is worth trying again; the
    /// fragments may still be too small, so that the caller tries a bounded number of times.
    ///
    /// # Errors
    /// `need` where nothing could be moved and the policy evicts nothing, or no key is left.
    pub fn reserve(
        &self,
        need: NeedRoom,
        shard: ShardIndex,
        context: &mut SweepContext<'_>,
    ) -> Result<(), NeedRoom> {
        match need.region {
            Region::Private => self.reserve_private(need.bytes, context),
            _ => self.make_room(need, Some(shard), context),
        }
    }

    /// Frees memory where the bytes in use are above the limit.
    ///
    /// # Errors
    /// NeedRoom as [`Keyspace::reserve`].
    pub fn repay(&self, context: &mut SweepContext<'_>) -> Result<(), NeedRoom> {
        self.make_room(NeedRoom { bytes: 0, region: Region::Slab }, None, context)
    }

    fn make_room(
        &self,
        need: NeedRoom,
        shard: Option<ShardIndex>,
        context: &mut SweepContext<'_>,
    ) -> Result<(), NeedRoom> {
        self.arena().reclaim();
        self.account.note_arena_lists();
        // The index may have passed the limit, of which nobody is told.
        if self.account.excess_with(0) > 0 {
            self.account.suspect_overshoot();
        }
        if !self.is_over_limit() && (need.bytes == 0 || self.compact(need)) {
            return Ok(());
        }
        if need.bytes == 0 && !self.may_remove() {
            // The excess is repaid once writes are taken.
            return Ok(());
        }
        if need.bytes > 0 {
            match self.fit(need, context) {
                // No key has to go for what never fits.
                Fit::Nowhere => return Err(need),
                fit if self.extend(need, fit == Fit::InPlace, context) => return Ok(()),
                Fit::InPlace => return Err(need),
                Fit::Anywhere => {}
            }
        }
        if self.candidate_count() == 0 {
            let is_scattered =
                need.region == Region::Extent && self.arena().extent_free_bytes() >= need.bytes;
            let has_moved = is_scattered && self.clear(need.bytes, ReclaimBy::Moves, context)
                || need.bytes > 0 && self.shift(need.region, ReclaimBy::Moves, context) > 0;
            return if has_moved { Ok(()) } else { Err(need) };
        }
        self.take_recent_access_reports(context.now);
        if need.bytes == 0 {
            // First, as entries that are moved may take a little more than they did.
            self.repay_touched(context);
        }
        let freed = self.evict_for(need, shard, context);
        let mut moved = self.compact(need);
        if freed == 0 && need.bytes > 0 && !moved {
            // None of the keys that may go has memory of this kind; other keys can be moved.
            moved = self.shift(need.region, ReclaimBy::Moves, context) > 0;
        }
        // Where nothing was left to evict here, another worker may have made the room.
        let is_within = || self.excess_bytes() == 0 && (need.bytes == 0 || moved);
        if freed > 0 || is_within() { Ok(()) } else { Err(need) }
    }

    /// Evicts until `need` is freed, of a block as much as all holes together lack, and memory is
    /// within the limit; returns the bytes that are free now.
    fn evict_for(
        &self,
        need: NeedRoom,
        shard: Option<ShardIndex>,
        context: &mut SweepContext<'_>,
    ) -> u64 {
        let (mut freed, mut fruitless, mut uses_holes) = (0, 0, need.region == Region::Extent);
        for _ in 0..self.rounds(need.bytes) {
            let excess = self.excess_bytes();
            let lacked = match uses_holes {
                // What a drained segment brings is no hole.
                true => need.bytes.saturating_sub(self.arena().extent_free_bytes().max(freed)),
                false if need.region == Region::Index => u64::from(freed == 0) * need.bytes,
                false => need.bytes.saturating_sub(freed),
            };
            if fruitless == FRUITLESS_ROUNDS_MAX {
                break;
            }
            if lacked == 0 && excess == 0 {
                if !uses_holes || freed >= need.bytes {
                    break;
                }
                // A larger hole than before is not enough here: the next step may make it smaller.
                if self.slide_until_fits(need.bytes)
                    || self.arena().give_back(need.bytes) >= need.bytes
                    || self.clear(need.bytes, ReclaimBy::Evictions, context)
                {
                    freed = freed.max(need.bytes);
                    break;
                }
                // What is free lies among blocks that stay: as much of others goes.
                (uses_holes, freed) = (false, 0);
                continue;
            }
            let candidate_count = self.candidate_count();
            let goal = lacked.max(excess);
            let got = match need.region {
                Region::Extent => self.free_extents(goal, context),
                Region::Index => self.free_index(shard, need.bytes, context),
                Region::Private => panic!("private memory is made room for elsewhere"),
                Region::Slab if need.bytes > 0 => {
                    let spare = (self.maxmemory() / SPARE_SHARE).min(SPARE_BYTES_MAX);
                    self.free_slabs(shard, goal.max(spare), candidate_count, context)
                }
                Region::Slab => self.evict_anywhere(goal, candidate_count, context),
            };
            freed += got;
            fruitless = if got == 0 { fruitless + 1 } else { 0 };
        }
        freed
    }

    /// Returns how often a shard is locked to free `bytes`, before the caller has to ask again.
    fn rounds(&self, bytes: u64) -> u64 {
        let tenacity = u64::from(self.eviction_tenacity.load(Ordering::Relaxed));
        let rounds = match tenacity {
            0..=10 => EVICTION_ROUNDS * tenacity / 10,
            // Redis's factor of 1.15 for each step, in whole numbers.
            11..100 => (11..=tenacity).fold(EVICTION_ROUNDS, |rounds, _| rounds * 115 / 100),
            _ => EVICTION_ROUNDS_MAX,
        };
        // What is above the limit is no matter of the command that meets it: each repays a part.
        let rounds = if bytes == 0 { rounds / REPAYING_SHARE } else { rounds };
        rounds.max(EVICTION_ROUNDS_MIN) + bytes / BYTES_PER_EXTRA_ROUND
    }

    /// Frees memory that slab pages can have: evicts keys of the shard that lacks it, and takes a
    /// segment from the extents when large entries have left as much, or nothing else is left.
    fn free_slabs(
        &self,
        shard: Option<ShardIndex>,
        goal: u64,
        candidate_count: u64,
        context: &mut SweepContext<'_>,
    ) -> u64 {
        let mut shard = self.victim_shard(shard, candidate_count, context.random);
        let mut freed = self.evict_from(shard, goal, Victims::Any, context);
        if freed.bytes() == 0 && !context.spared.is_empty() {
            // All that it has may be spared.
            shard = self.random_shard(candidate_count, context.random);
            freed = self.evict_from(shard, goal, Victims::Any, context);
        }
        if freed.small == 0 {
            freed.small = self.evict_from(shard, goal, Victims::Small, context).small;
        }
        let segment_bytes = self.arena().segment_bytes();
        let before = self.extent_debt.fetch_add(freed.large, Ordering::Relaxed);
        if freed.small > 0 && before + freed.large < segment_bytes {
            return freed.bytes();
        }
        let cleared = self.shrink_extents(ReclaimBy::Evictions, context);
        pay(&self.extent_debt, cleared);
        freed.bytes() + cleared
    }

    /// Has the index do with the memory that it has, or gives it a segment. A shard that lacks a
    /// few KiB for its buckets needs none once some of its keys are gone, and one without keys
    /// finds them where another's last have gone. What does not help is asked for again, for more
    /// each time, until a segment is emptied, whatever lies there.
    fn free_index(
        &self,
        shard: Option<ShardIndex>,
        bytes: u64,
        context: &mut SweepContext<'_>,
    ) -> u64 {
        let shifted = self.shift(Region::Index, ReclaimBy::Moves, context);
        if shifted > 0 {
            return shifted;
        }
        if bytes < self.arena().segment_bytes().min(INDEX_LACK_MAX) {
            let has_keys = |shard: &ShardIndex| self.shard_candidates(*shard) > 0;
            let (victim, goal) = match shard.filter(has_keys) {
                Some(shard) => (Some(shard), bytes / INDEX_BYTES_PER_EVICTED_BYTE),
                None => {
                    let others = self.shard_indexes().filter(has_keys);
                    (others.min_by_key(|&shard| self.shard_candidates(shard)), u64::MAX)
                }
            };
            let victim = victim.unwrap_or(ShardIndex(0));
            let freed = self.evict_from(victim, goal, Victims::Any, context).bytes();
            if freed > 0 {
                return freed;
            }
        }
        self.shift(Region::Index, ReclaimBy::Evictions, context)
    }

    /// Frees memory that `region` can have, by taking a segment from the region that has more;
    /// returns how many bytes that was.
    fn shift(&self, region: Region, reclaim_by: ReclaimBy, context: &mut SweepContext<'_>) -> u64 {
        let usage = self.arena().usage();
        let is_slab = match region {
            Region::Index => usage.slab_bytes >= usage.extent_bytes,
            Region::Extent => true,
            Region::Slab | Region::Private => false,
        };
        if is_slab {
            self.drain(reclaim_by, context)
        } else {
            self.shrink_extents(reclaim_by, context)
        }
    }

    /// Gives memory back that was touched above the limit, by a transaction or as the limit was
    /// lowered, and that nothing uses any more: a segment at a time, by moving what lies there.
    fn repay_touched(&self, context: &mut SweepContext<'_>) {
        if self.touched_excess() == 0 {
            return;
        }
        let (slab, extent) = (self.arena().slab_free_bytes(), self.arena().extent_free_bytes());
        let region = if slab >= extent { Region::Extent } else { Region::Slab };
        if self.shift(region, ReclaimBy::Moves, context) == 0 && self.should_evict_for_touched() {
            // Emptying a segment by force would evict all that lies there, a collection for each
            // small entry. What goes in the policy's order leaves room to move the rest, or is
            // private memory, which has the same limit.
            self.evict_anywhere(self.touched_excess(), self.candidate_count(), context);
        }
    }

    /// Returns whether keys go so that touched memory can be given back: whole segments of it are
    /// above the limit, and what is in use leaves less than a segment of the limit free. Where
    /// there is more, what lies scattered is all that keeps a segment from being given back, and
    /// every key might go before one is.
    fn should_evict_for_touched(&self) -> bool {
        let segment_bytes = self.arena().segment_bytes();
        self.touched_excess() >= segment_bytes
            && self.used_memory() + segment_bytes > self.maxmemory()
            && self.candidate_count() > 0
    }

    /// Returns by how much touched memory is above the limit and what the index may pass it by.
    fn touched_excess(&self) -> u64 {
        self.touched_bytes().saturating_sub(self.maxmemory() + self.arena().slack_bytes())
    }

    /// Returns by how much touched memory would be above the limit with `bytes` more.
    pub(crate) fn touched_excess_with(&self, bytes: u64) -> u64 {
        (self.touched_bytes() + bytes).saturating_sub(self.maxmemory())
    }

    /// Returns the bytes that the arena has ever taken from the system and has, and the private
    /// ones.
    fn touched_bytes(&self) -> u64 {
        self.arena().usage().touched_bytes + self.private_bytes()
    }

    /// Frees memory that extents can have: evicts large entries, and takes a segment from the slab
    /// pages when that has been unfair to the large ones for as much, or none of them is left.
    pub(crate) fn free_extents(&self, goal: u64, context: &mut SweepContext<'_>) -> u64 {
        let evicted = self.evict_blocks(goal, context);
        let segment_bytes = self.arena().segment_bytes();
        let before = self.slab_debt.fetch_add(evicted.unfair, Ordering::Relaxed);
        if evicted.freed > 0 && before + evicted.unfair < segment_bytes {
            return evicted.freed;
        }
        let drained = self.drain(ReclaimBy::Evictions, context);
        pay(&self.slab_debt, drained);
        evicted.freed + drained
    }

    /// Makes room for `bytes` before a change that may not evict while it runs, so that memory
    /// stays within the limit.
    ///
    /// # Errors
    /// NeedRoom where there is none and the policy evicts nothing, or too little.
    pub fn reserve_private(
        &self,
        bytes: u64,
        context: &mut SweepContext<'_>,
    ) -> Result<(), NeedRoom> {
        let maxmemory = self.maxmemory();
        let need = NeedRoom { bytes, region: Region::Private };
        let lacking = || match maxmemory {
            0 => 0,
            _ => (self.used_memory() + bytes).saturating_sub(maxmemory),
        };
        if lacking() > 0 {
            if self.fit(need, context) != Fit::Anywhere {
                return Err(need);
            }
            self.take_recent_access_reports(context.now);
        }
        let mut fruitless = 0;
        for _ in 0..self.rounds(bytes) {
            let (lacked, candidate_count) = (lacking(), self.candidate_count());
            let is_stuck = fruitless == FRUITLESS_ROUNDS_MAX || candidate_count == 0;
            if lacked == 0 || is_stuck {
                break;
            }
            let got = self.evict_anywhere(lacked, candidate_count, context);
            fruitless = if got == 0 { fruitless + 1 } else { 0 };
        }
        if lacking() == 0 { Ok(()) } else { Err(need) }
    }

    /// Returns by how many bytes memory in use is above the limit.
    fn excess_bytes(&self) -> u64 {
        if self.is_over_limit() { self.used_memory().saturating_sub(self.maxmemory()) } else { 0 }
    }

    /// Slides blocks until what is needed fits, within one budget, and gives free segments back.
    /// Returns whether either was of use.
    fn compact(&self, need: NeedRoom) -> bool {
        let is_nearer = need.region == Region::Extent && self.slide(need.bytes);
        self.arena().give_back(need.bytes) >= need.bytes.max(1) || is_nearer
    }

    /// Slides blocks until there is a hole of `bytes`, within one budget; returns whether there is
    /// one now, or at least a larger one than before. That blocks have moved is not enough: small
    /// holes may change places for as long as anybody asks.
    fn slide(&self, bytes: u64) -> bool {
        let grade_before = self.arena().largest_hole_grade();
        self.slide_until_fits(bytes) || self.arena().largest_hole_grade() > grade_before
    }

    /// Slides blocks until there is a hole of `bytes`, within one budget; returns whether there is.
    fn slide_until_fits(&self, bytes: u64) -> bool {
        let mut budget = SlideBudget::new();
        while let Some(step) = self.arena().plan_slide(bytes, &mut budget) {
            let index = ShardIndex(step.owner.shard);
            if self.lock(index).shard_mut(index).slide(&step) == Slid::Pinned {
                budget.avoid(&step);
            }
        }
        self.arena().extent_fits(bytes)
    }

    /// Returns the shard to evict from. Slab pages belong to a shard, so that for these the shard
    /// that lacks room gives first, while it holds a fair share of the keys that may go.
    fn victim_shard(
        &self,
        needy: Option<ShardIndex>,
        candidate_count: u64,
        random: &mut Prng,
    ) -> ShardIndex {
        let count = self.shard_count() as u64;
        if let Some(needy) = needy
            && self.shard_candidates(needy) * count * 2 >= candidate_count
        {
            return needy;
        }
        self.random_shard(candidate_count, random)
    }

    /// Returns a shard in proportion to its keys that may go, so that each of them is as likely to,
    /// wherever it lies. There were `candidate_count` of them in all a moment ago.
    pub(crate) fn random_shard(&self, candidate_count: u64, random: &mut Prng) -> ShardIndex {
        let mut rest = if candidate_count == 0 { 0 } else { random.below(candidate_count) };
        for index in self.shard_indexes() {
            let keys = self.shard_candidates(index);
            if rest < keys {
                return index;
            }
            rest -= keys;
        }
        ShardIndex(0)
    }

    /// Returns how many keys the policy may evict now. Costs a look at each shard.
    pub(crate) fn candidate_count(&self) -> u64 {
        if !self.may_remove() {
            return 0;
        }
        self.shard_indexes().map(|index| self.shard_candidates(index)).sum()
    }

    fn shard_candidates(&self, shard: ShardIndex) -> u64 {
        self.eviction_policy().candidates(self.published(shard).all_counts())
    }

    #[cold]
    fn check_limit(&self, suspicions: u64) -> bool {
        let maxmemory = self.maxmemory();
        if maxmemory == 0 {
            self.account.cleared.fetch_max(suspicions, Ordering::Relaxed);
            return false;
        }
        let used = self.used_memory();
        // Memory that an overshoot touched and nothing uses any more goes back where it can.
        self.account.give_back_excess();
        let over = used > maxmemory || self.should_evict_for_touched();
        if !over {
            // Those that have come since stay.
            self.account.cleared.fetch_max(suspicions, Ordering::Relaxed);
        }
        over
    }
}

/// Takes `bytes` off a debt.
fn pay(debt: &AtomicU64, bytes: u64) {
    let rest = |debt: u64| Some(debt.saturating_sub(bytes));
    debt.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).expect("there is always a rest");
}
