//! The memory limit: what counts towards it, and how room is made when it is reached.
//!
//! `maxmemory` bounds the arena (index, slab pages, extents) and the private bytes that their
//! owners charge here: connection buffers, backlog, watches, per-slot counts. The arena gets what
//! the private bytes leave.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arena::{Arena, NeedRoom};
use base::prng::Prng;
use base::{SLOT_COUNT, ShardIndex, UnixMs};

use crate::evict::EvictionPolicy;
use crate::keyspace::Keyspace;

/// How often [`Keyspace::reserve`] evicts and looks again before it gives up.
const RESERVE_ROUNDS_MAX: u32 = 64;

/// What making room needs from outside.
pub struct SweepContext<'a> {
    /// The time, which decides who was used last.
    pub now: UnixMs,
    /// Chooses the keys that are looked at.
    pub random: &'a mut Prng,
}

/// Bytes against the limit.
pub(crate) struct MemoryAccount {
    arena: Arc<Arena>,
    maxmemory: AtomicU64,
    private: AtomicU64,
    /// Held while the arena's limit is computed and set, so that the last one set is the latest.
    limit: Mutex<()>,
}

impl MemoryAccount {
    pub fn new(arena: Arc<Arena>) -> MemoryAccount {
        MemoryAccount {
            arena,
            maxmemory: AtomicU64::new(0),
            private: AtomicU64::new(0),
            limit: Mutex::new(()),
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
    }
}

impl Keyspace {
    /// Returns the memory limit in bytes; 0 is none.
    #[inline]
    pub fn maxmemory(&self) -> u64 {
        self.account.maxmemory.load(Ordering::Relaxed)
    }

    /// Sets the memory limit in bytes; 0 is none. Memory in use above a lower limit goes as later
    /// commands make room.
    pub fn set_maxmemory(&self, bytes: u64) {
        self.account.set_maxmemory(bytes);
    }

    /// Returns the bytes in use: the arena's and the private ones.
    pub fn used_memory(&self) -> u64 {
        self.arena().usage().used_bytes() + self.private_bytes()
    }

    /// Returns the private bytes that count towards the limit.
    pub fn private_bytes(&self) -> u64 {
        self.account.private.load(Ordering::Relaxed)
    }

    /// Counts `bytes` of private memory towards the limit.
    pub fn charge(&self, bytes: u64) {
        self.account.charge(bytes);
    }

    /// Takes back `bytes` that were charged.
    ///
    /// # Panics
    /// When less was charged.
    pub fn discharge(&self, bytes: u64) {
        self.account.discharge(bytes);
    }

    /// Returns whether more memory is in use than the limit allows.
    pub fn is_over_limit(&self) -> bool {
        let maxmemory = self.maxmemory();
        maxmemory != 0 && self.used_memory() > maxmemory
    }

    /// Makes room for `bytes` in `shard`, whose write lacked them: moves entries together, then
    /// evicts as the policy allows. The caller holds no guard; one shard is locked at a time.
    ///
    /// # Errors
    /// NeedRoom where the policy evicts nothing, or nothing is left that would help.
    pub fn reserve(
        &self,
        bytes: u64,
        shard: ShardIndex,
        context: &mut SweepContext<'_>,
    ) -> Result<(), NeedRoom> {
        if self.eviction_policy() == EvictionPolicy::NoEviction {
            return Err(NeedRoom { bytes });
        }
        let mut freed = 0;
        for _ in 0..RESERVE_ROUNDS_MAX {
            freed += self.evict_round(shard, context);
            if freed >= bytes && !self.is_over_limit() {
                return Ok(());
            }
        }
        Err(NeedRoom { bytes })
    }
}
