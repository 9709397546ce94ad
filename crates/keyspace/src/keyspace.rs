//! The keyspace: all shards, their locks, and what can be read without a lock.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use arena::Arena;
use base::step_counters::{self, CountedStep};
use base::{DATABASE_COUNT_MAX, DatabaseIndex, Key, KeyHasher, SecretHasher, ShardIndex};
use collections::Limits;
use effects::{Admission, EffectSink};
use rdb::Version;

use crate::eviction::adaptive::AdaptiveState;
use crate::eviction::policy::EvictionPolicy;
use crate::eviction::pool::EvictionPool;
use crate::eviction::{Block, SAMPLES_DEFAULT};
use crate::guard::Guard;
use crate::key_waits::UnservedKeys;
use crate::memory_limit::{MemoryAccount, TENACITY_DEFAULT};
use crate::published::{Counters, DatabaseCounts, Published};
use crate::reader_accesses::AccessReportInbox;
use crate::shard::Shard;
use crate::shard_set::ShardSet;

/// The fewest shards of a server: enough that two workers seldom meet.
const SHARD_COUNT_MIN: usize = 64;
/// Shards for each worker.
const SHARDS_PER_WORKER: usize = 16;
/// The most shards that there can be.
const SHARD_COUNT_MAX: usize = 4096;

/// Returns the number of shards for a server of `worker_count` workers: a power of two.
pub fn shard_count_for_workers(worker_count: usize) -> usize {
    let wanted = worker_count.saturating_mul(SHARDS_PER_WORKER).max(SHARD_COUNT_MIN);
    wanted.min(SHARD_COUNT_MAX).next_power_of_two()
}

/// All databases, in shards that are locked one by one.
pub struct Keyspace {
    pub(crate) account: Arc<MemoryAccount>,
    shards: Box<[ShardCell]>,
    /// What [`Keyspace::counters`] counts from.
    counters_from: Mutex<Counters>,
    pub(crate) eviction_policy: AtomicU8,
    pub(crate) adaptive: Mutex<AdaptiveState>,
    pub(crate) eviction_samples: AtomicU32,
    pub(crate) eviction_tenacity: AtomicU32,
    /// The large entries that should go first of those that choices have met.
    pub(crate) block_pool: Mutex<EvictionPool<Block>>,
    /// Bytes of large entries that were evicted while small ones had been unused for longer.
    pub(crate) slab_debt: AtomicU64,
    /// Bytes of large entries that were evicted for want of slab pages.
    pub(crate) extent_debt: AtomicU64,
    /// What [`Keyspace::keys_per_shard_bound`] returns of each database.
    keys_per_shard_bounds: [AtomicU64; DATABASE_COUNT_MAX],
    /// Held by the thread that takes a segment from one region for another. Taken before any shard.
    pub(crate) rebalance_lock: Mutex<()>,
    pub(crate) access_reports: AccessReportInbox,
    admission: Arc<Admission>,
    pub(crate) unserved: Arc<UnservedKeys>,
}

/// One shard behind its lock, on cache lines of its own.
#[repr(align(128))]
struct ShardCell {
    shard: Mutex<Shard>,
    published: Arc<Published>,
}

impl Keyspace {
    /// Returns an empty keyspace over `arena`, with the arena's shards, databases and key hash.
    pub fn new(arena: Arc<Arena>) -> Keyspace {
        let shard_count = arena.config().shard_count as usize;
        let account = Arc::new(MemoryAccount::new(arena));
        let unserved: Arc<UnservedKeys> = Arc::default();
        let cell = |index: usize| {
            let published = Arc::new(Published::default());
            let (account, unserved) = (account.clone(), unserved.clone());
            let index = ShardIndex(index as u16);
            let shard = Shard::new(index, account, published.clone(), unserved);
            ShardCell { shard: Mutex::new(shard), published }
        };
        let shards: Box<[ShardCell]> = (0..shard_count).map(cell).collect();
        account.charge((shards.len() * (size_of::<ShardCell>() + size_of::<Published>())) as u64);
        Keyspace {
            account,
            shards,
            counters_from: Mutex::default(),
            eviction_policy: AtomicU8::new(EvictionPolicy::default().position()),
            adaptive: Mutex::default(),
            eviction_samples: AtomicU32::new(SAMPLES_DEFAULT),
            eviction_tenacity: AtomicU32::new(TENACITY_DEFAULT),
            block_pool: Mutex::default(),
            slab_debt: AtomicU64::new(0),
            extent_debt: AtomicU64::new(0),
            keys_per_shard_bounds: Default::default(),
            rebalance_lock: Mutex::new(()),
            access_reports: AccessReportInbox::default(),
            admission: Arc::default(),
            unserved,
        }
    }

    /// Returns the arena.
    pub fn arena(&self) -> &Arc<Arena> {
        self.account.arena()
    }

    /// Returns what makes keys out of bytes.
    #[inline]
    pub fn hasher(&self) -> &KeyHasher {
        self.account.arena().hasher()
    }

    /// Returns the hasher of what is registered for keys.
    pub(crate) fn secret_hasher(&self) -> &SecretHasher {
        self.account.arena().secret_hasher()
    }

    /// Returns whether any value lies where a client can write it. Whoever holds a shard learns of
    /// all that are in it.
    #[inline]
    pub fn has_adopted(&self) -> bool {
        self.arena().uploads().has_adopted()
    }

    /// Returns the number of shards: a power of two.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Returns the shards.
    pub fn shard_indexes(&self) -> impl Iterator<Item = ShardIndex> + use<> {
        (0..self.shards.len() as u16).map(ShardIndex)
    }

    /// Returns the databases.
    pub fn databases(&self) -> impl Iterator<Item = DatabaseIndex> + use<> {
        (0..self.arena().config().database_count as u8).map(DatabaseIndex)
    }

    /// Returns the number of databases.
    pub fn database_count(&self) -> usize {
        self.arena().config().database_count as usize
    }

    /// Locks one shard. The caller holds no other guard.
    #[inline]
    pub fn lock(&self, shard: ShardIndex) -> Guard<'_> {
        Guard::one(self, self.acquire(shard))
    }

    /// Locks one shard, and calls `waits` first where another thread holds it. The caller holds no
    /// other guard.
    #[inline]
    pub fn lock_or_notify(&self, shard: ShardIndex, waits: impl FnOnce()) -> Guard<'_> {
        Guard::one(self, self.acquire_or_notify(shard, waits))
    }

    /// Locks the shards of `keys`, or any one where there are none: what counts its keys wrong is
    /// refused under it. The caller holds no other guard.
    #[inline]
    pub fn lock_keys(&self, keys: &[Key<'_>]) -> Guard<'_> {
        Guard::keys(self, keys, || {})
    }

    /// As [`Keyspace::lock_keys`], and calls `waits` each time before it waits for another thread.
    #[inline]
    pub fn lock_keys_or_notify(&self, keys: &[Key<'_>], waits: impl FnMut()) -> Guard<'_> {
        Guard::keys(self, keys, waits)
    }

    /// Locks `shards`, which are not empty. The caller holds no other guard.
    pub fn lock_set(&self, shards: &ShardSet) -> Guard<'_> {
        assert!(!shards.is_empty(), "a guard is for a shard at least");
        Guard::set(self, shards)
    }

    /// Locks all shards: the gate for what concerns the whole keyspace. The caller holds no other
    /// guard. See docs/decisions/0002-gate.md for its cost.
    pub fn lock_all(&self) -> Guard<'_> {
        Guard::many(self, &ShardSet::first(self.shard_count()), || {})
    }

    /// Asks the cache for the part of the index where `key` would be. Does nothing while somebody
    /// else holds the shard.
    #[inline]
    pub fn prefetch_bucket(&self, key: &Key<'_>, database: DatabaseIndex) {
        self.peek(key, |shard| shard.prefetch_bucket(database, key.hash));
    }

    /// Asks the cache for the entry of `key`, once the index is there, or where there is none for
    /// what the eviction policy remembers of the key.
    #[inline]
    pub fn prefetch_entry(&self, key: &Key<'_>, database: DatabaseIndex) {
        self.peek(key, |shard| shard.prefetch_entry(database, key.hash));
    }

    #[inline]
    fn peek(&self, key: &Key<'_>, prefetch: impl Fn(&Shard)) {
        let cell = &self.shards[key.shard.position()];
        if let Ok(shard) = cell.shard.try_lock() {
            prefetch(&shard);
        }
    }

    /// Returns whether writes are taken. Who changes data asks before he begins; the sweeps do.
    #[inline]
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Makes `sink` the listener of all effects from one moment on, in place of any before.
    pub fn set_sink(&self, sink: Option<Arc<dyn EffectSink>>) {
        let mut guard = self.lock_all();
        for index in self.shard_indexes() {
            guard.shard_mut(index).sink = sink.clone();
        }
    }

    /// Sets how long collections stay in their compact forms. Those that have left theirs stay as
    /// they are.
    pub fn set_collection_limits(&self, limits: Limits) {
        self.account.set_collection_limits(limits);
    }

    /// Sets the version of the format in which values leave as bytes: DUMP and MIGRATE. Effects are
    /// always in the newest.
    pub fn set_export_version(&self, version: Version) {
        self.account.set_export_version(version);
    }

    /// Returns the version of the format in which values leave as bytes.
    pub fn export_version(&self) -> Version {
        self.account.export_version()
    }

    /// Returns how many keys `database` has; may be a moment old, takes no lock.
    pub fn counts(&self, database: DatabaseIndex) -> DatabaseCounts {
        let shards = self.shard_indexes().map(|index| self.shard_counts(index, database));
        shards.fold(DatabaseCounts::default(), |sum, counts| DatabaseCounts {
            keys: sum.keys + counts.keys,
            volatile: sum.volatile + counts.volatile,
            timed: sum.timed + counts.timed,
        })
    }

    /// Returns the time to live that the keys of `database` which have one had on average when the
    /// sweep met them, in milliseconds, 0 before it has met any; takes no lock. Shards that the
    /// sweep has not come to yet have no part in it.
    pub fn ttl_mean_ms(&self, database: DatabaseIndex) -> u64 {
        let weights = self.shard_indexes().filter_map(|index| {
            let published = self.published(index);
            let volatile = u128::from(published.counts(database).volatile);
            let mean = u128::from(published.ttl_mean_ms(database));
            (mean > 0).then_some((volatile, mean * volatile))
        });
        let (count, sum) = weights.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        u64::try_from(sum.checked_div(count).unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// Returns how many keys `database` has, as [`Keyspace::counts`] does, and nothing else.
    pub fn key_count(&self, database: DatabaseIndex) -> u64 {
        let position = database.position();
        self.shards.iter().map(|cell| cell.published.keys_at(position)).sum()
    }

    /// Returns how many keys of `database` any shard had at most, and some more, when it was last
    /// renewed; shards may have more now.
    pub(crate) fn keys_per_shard_bound(&self, database: DatabaseIndex) -> u64 {
        self.keys_per_shard_bounds[database.position()].load(Ordering::Relaxed)
    }

    /// Brings [`Keyspace::keys_per_shard_bound`] up to date.
    pub(crate) fn renew_keys_per_shard_bound(&self, database: DatabaseIndex) {
        let position = database.position();
        let counts = self.shards.iter().map(|cell| cell.published.keys_at(position));
        let most = counts.max().unwrap_or(0);
        // Room for an eighth more: a database that grows is not looked at for each key.
        let bound = most.saturating_add(most / 8);
        self.keys_per_shard_bounds[position].store(bound, Ordering::Relaxed);
    }

    /// Returns how many keys of `database` lie in `shard`; may be a moment old, takes no lock.
    pub fn shard_counts(&self, shard: ShardIndex, database: DatabaseIndex) -> DatabaseCounts {
        self.published(shard).counts(database)
    }

    /// Returns how many keys of `shard` have a time to live, and how many have fields that have
    /// one; may be a moment old, takes no lock.
    pub fn shard_volatile(&self, shard: ShardIndex) -> u64 {
        let counts = self.published(shard).all_counts();
        counts.volatile + counts.timed
    }

    /// Returns the events since the last [`Keyspace::reset_counters`]; takes no lock of a shard.
    pub fn counters(&self) -> Counters {
        self.counters_since_start().since(*self.counters_from())
    }

    /// Returns the changes since the keyspace was made, which nothing has saved: as in Redis, those
    /// that were asked for, and neither expiry nor eviction.
    pub fn changes_since_start(&self) -> u64 {
        let counters = self.counters_since_start();
        // Each shard's numbers are read one after the other while they grow.
        counters.changes.saturating_sub(counters.expired_keys + counters.evicted_keys)
    }

    /// Returns a number that grows with each lookup that a read makes and with each change.
    pub fn uses_since_start(&self) -> u64 {
        let uses = |published: &Published| {
            published.hits.value() + published.misses.value() + published.changes.value()
        };
        self.shards.iter().map(|cell| uses(&cell.published)).sum()
    }

    /// Starts all counters anew.
    pub fn reset_counters(&self) {
        *self.counters_from() = self.counters_since_start();
    }

    /// Locks one shard, and calls `waits` first where another thread holds it.
    #[inline]
    pub(crate) fn acquire_or_notify(
        &self,
        shard: ShardIndex,
        waits: impl FnOnce(),
    ) -> MutexGuard<'_, Shard> {
        match self.shards[shard.position()].shard.try_lock() {
            Ok(held) => held,
            Err(_) => {
                waits();
                self.acquire(shard)
            }
        }
    }

    /// Locks one shard, waiting for it: the only place that waits.
    #[inline]
    pub(crate) fn acquire(&self, shard: ShardIndex) -> MutexGuard<'_, Shard> {
        step_counters::count_step(CountedStep::Lock);
        let cell = &self.shards[shard.position()];
        cell.shard.lock().expect("nobody has panicked while changing this shard")
    }

    pub(crate) fn published(&self, shard: ShardIndex) -> &Published {
        &self.shards[shard.position()].published
    }

    fn counters_since_start(&self) -> Counters {
        let shards = self.shards.iter().map(|cell| cell.published.counters());
        shards.fold(Counters::default(), Counters::plus)
    }

    fn counters_from(&self) -> MutexGuard<'_, Counters> {
        self.counters_from.lock().expect("no holder of the counters panics")
    }
}
