//! One of the arena's allocators behind its own short lock, with the bytes in use readable
//! without it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::mapped_range::MappedRange;

/// What knows how many bytes of its region are in use.
pub(crate) trait Allocator {
    /// Returns the bytes in use.
    fn used_bytes(&self) -> u64;

    /// Returns the bytes of private memory that the allocator's own lists take.
    fn private_bytes(&self) -> u64;
}

/// A region's allocator and its lock.
pub(crate) struct RegionAllocator<R> {
    region: Mutex<R>,
    /// What `memory` was told of the bytes in use.
    used_bytes: AtomicU64,
    /// As above, of the private bytes.
    private_bytes: AtomicU64,
    memory: Arc<MappedRange>,
}

impl<R: Allocator> RegionAllocator<R> {
    /// Puts a lock around an allocator of `memory`, which is told of the bytes in use and of the
    /// private ones.
    pub fn new(region: R, memory: Arc<MappedRange>) -> RegionAllocator<R> {
        let allocator = RegionAllocator {
            region: Mutex::new(region),
            used_bytes: AtomicU64::new(0),
            private_bytes: AtomicU64::new(0),
            memory,
        };
        drop(allocator.lock());
        allocator
    }

    /// Locks the allocator. A holder takes no shard, and no other allocator after this one.
    pub fn lock(&self) -> LockedAllocator<'_, R> {
        let region = self.region.lock().expect("no holder of an allocator panics");
        LockedAllocator { region, allocator: self }
    }

    /// Returns the bytes in use when the lock was last let go.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Publishes the figures of `region`, whose lock the caller holds.
    fn publish(&self, region: &R) {
        let memory = &*self.memory;
        tell(&self.used_bytes, region.used_bytes(), |before, after| {
            memory.change_used(before, after)
        });
        tell(&self.private_bytes, region.private_bytes(), |before, after| {
            memory.change_private(before, after)
        });
    }
}

/// Makes `told` the figure `after`; where it was another, calls `change` with both.
fn tell(told: &AtomicU64, after: u64, change: impl FnOnce(u64, u64)) {
    let before = told.load(Ordering::Relaxed);
    if before != after {
        told.store(after, Ordering::Relaxed);
        change(before, after);
    }
}

/// A locked allocator; publishes its figures when it goes.
pub(crate) struct LockedAllocator<'a, R: Allocator> {
    region: MutexGuard<'a, R>,
    allocator: &'a RegionAllocator<R>,
}

impl<R: Allocator> Deref for LockedAllocator<'_, R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.region
    }
}

impl<R: Allocator> DerefMut for LockedAllocator<'_, R> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.region
    }
}

impl<R: Allocator> Drop for LockedAllocator<'_, R> {
    fn drop(&mut self) {
        self.allocator.publish(&self.region);
    }
}
