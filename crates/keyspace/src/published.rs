//! Counts that any thread may read without a lock; only the holder of a shard's lock writes them.

use std::sync::atomic::{AtomicU64, Ordering};

use base::{DATABASE_COUNT_MAX, DatabaseIndex};

use crate::access_mark::Tracking;

/// A number with one writer at a time (the holder of the shard) and any number of readers. Relaxed
/// loads and stores suffice and cost what plain ones do.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    /// Returns the number, which may be a moment old.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the number; only under the shard's lock.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds `count`; only under the shard's lock.
    #[inline]
    pub fn add(&self, count: u64) {
        self.set(self.value().wrapping_add(count));
    }
}

/// What one shard publishes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Published {
    pub hits: Gauge,
    pub misses: Gauge,
    pub changes: Gauge,
    pub expired: Gauge,
    pub evicted: Gauge,
    /// How accesses are tracked; here because every read has this line at hand.
    pub tracking: Tracking,
    // What reads need is above, in one line of the cache: further counters follow here.
    /// The keys of all databases, and those of them with a time to live.
    all_keys: Gauge,
    all_volatile: Gauge,
    keys: [Gauge; DATABASE_COUNT_MAX],
    volatile: [Gauge; DATABASE_COUNT_MAX],
    ttl_means_ms: [Gauge; DATABASE_COUNT_MAX],
    /// The fields of hashes that were removed because their time had come.
    pub expired_fields: Gauge,
    /// The leases that go on.
    pub leases: Gauge,
    pub lease_grants: Gauge,
    pub lease_fills: Gauge,
    pub lease_voids: Gauge,
    pub lease_expiries: Gauge,
    all_timed: Gauge,
    timed: [Gauge; DATABASE_COUNT_MAX],
}

impl Published {
    /// Publishes the time to live that the keys of `database` have on average.
    pub fn set_ttl_mean_ms(&self, database: DatabaseIndex, mean: u64) {
        self.ttl_means_ms[database.position()].set(mean);
    }

    /// Returns the time to live that the keys of `database` have on average.
    pub fn ttl_mean_ms(&self, database: DatabaseIndex) -> u64 {
        self.ttl_means_ms[database.position()].value()
    }

    /// Publishes how many hashes of `database` have fields that expire.
    pub fn set_timed(&self, database: DatabaseIndex, count: u64) {
        let gauge = &self.timed[database.position()];
        self.all_timed.add(count.wrapping_sub(gauge.value()));
        gauge.set(count);
    }

    /// Publishes the counts of `database`, but for what [`Published::set_timed`] does.
    pub fn set_counts(&self, database: DatabaseIndex, counts: DatabaseCounts) {
        let pairs = [
            (&self.keys[database.position()], &self.all_keys, counts.keys),
            (&self.volatile[database.position()], &self.all_volatile, counts.volatile),
        ];
        for (gauge, all, count) in pairs {
            all.add(count.wrapping_sub(gauge.value()));
            gauge.set(count);
        }
    }

    /// Returns the counts of all databases together.
    pub fn all_counts(&self) -> DatabaseCounts {
        DatabaseCounts {
            keys: self.all_keys.value(),
            volatile: self.all_volatile.value(),
            timed: self.all_timed.value(),
        }
    }

    /// Returns how many keys the database at `position` has.
    #[inline]
    pub fn keys_at(&self, position: usize) -> u64 {
        self.keys[position].value()
    }

    /// Returns the counts of `database`.
    pub fn counts(&self, database: DatabaseIndex) -> DatabaseCounts {
        DatabaseCounts {
            keys: self.keys[database.position()].value(),
            volatile: self.volatile[database.position()].value(),
            timed: self.timed[database.position()].value(),
        }
    }

    /// Returns the counters of events.
    pub fn counters(&self) -> Counters {
        Counters {
            keyspace_hits: self.hits.value(),
            keyspace_misses: self.misses.value(),
            changes: self.changes.value(),
            expired_keys: self.expired.value(),
            evicted_keys: self.evicted.value(),
            expired_fields: self.expired_fields.value(),
            lease_grants: self.lease_grants.value(),
            lease_fills: self.lease_fills.value(),
            lease_voids: self.lease_voids.value(),
            lease_expiries: self.lease_expiries.value(),
        }
    }
}

/// How many keys a database has, expired ones that no sweep has met included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseCounts {
    /// All keys.
    pub keys: u64,
    /// Keys with a time to live.
    pub volatile: u64,
    /// Hashes with fields that expire.
    pub timed: u64,
}

/// Events since the keyspace was made, or since the counters were reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads that found their key.
    pub keyspace_hits: u64,
    /// Reads that did not.
    pub keyspace_misses: u64,
    /// Effects: changes to the dataset.
    pub changes: u64,
    /// Keys removed because their time had come.
    pub expired_keys: u64,
    /// Keys removed to make room.
    pub evicted_keys: u64,
    /// Fields of hashes removed because their time had come.
    pub expired_fields: u64,
    /// Leases that were given.
    pub lease_grants: u64,
    /// Values that were stored under a lease.
    pub lease_fills: u64,
    /// Leases that ended because their keys changed.
    pub lease_voids: u64,
    /// Leases whose time passed.
    pub lease_expiries: u64,
}

impl Counters {
    /// Returns these counters plus `other`.
    pub fn plus(self, other: Counters) -> Counters {
        self.combine(other, u64::wrapping_add)
    }

    /// Returns the events of these counters that came after `earlier`.
    pub fn since(self, earlier: Counters) -> Counters {
        self.combine(earlier, u64::wrapping_sub)
    }

    fn combine(self, other: Counters, operation: fn(u64, u64) -> u64) -> Counters {
        Counters {
            keyspace_hits: operation(self.keyspace_hits, other.keyspace_hits),
            keyspace_misses: operation(self.keyspace_misses, other.keyspace_misses),
            changes: operation(self.changes, other.changes),
            expired_keys: operation(self.expired_keys, other.expired_keys),
            evicted_keys: operation(self.evicted_keys, other.evicted_keys),
            expired_fields: operation(self.expired_fields, other.expired_fields),
            lease_grants: operation(self.lease_grants, other.lease_grants),
            lease_fills: operation(self.lease_fills, other.lease_fills),
            lease_voids: operation(self.lease_voids, other.lease_voids),
            lease_expiries: operation(self.lease_expiries, other.lease_expiries),
        }
    }
}
