//! One of the arena's allocators behind its own short lock, with the bytes in use readable
//! without it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// What knows how many bytes of its region are in use.
pub(crate) trait Allocator {
    /// Returns the bytes in use.
    fn used_bytes(&self) -> u64;
}

/// A region's allocator and its lock.
pub(crate) struct Pool<R> {
    region: Mutex<R>,
    used_bytes: AtomicU64,
}

impl<R: Allocator> Pool<R> {
    pub fn new(region: R) -> Pool<R> {
        let used_bytes = AtomicU64::new(region.used_bytes());
        Pool { region: Mutex::new(region), used_bytes }
    }

    /// Locks the allocator. A holder takes no shard, and no other pool after this one.
    pub fn lock(&self) -> Held<'_, R> {
        let region = self.region.lock().expect("no holder of an allocator panics");
        Held { region, used_bytes: &self.used_bytes }
    }

    /// Returns the bytes in use when the lock was last let go.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

/// A locked allocator; publishes its figure when it goes.
pub(crate) struct Held<'a, R: Allocator> {
    region: MutexGuard<'a, R>,
    used_bytes: &'a AtomicU64,
}

impl<R: Allocator> Deref for Held<'_, R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.region
    }
}

impl<R: Allocator> DerefMut for Held<'_, R> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.region
    }
}

impl<R: Allocator> Drop for Held<'_, R> {
    fn drop(&mut self) {
        self.used_bytes.store(self.region.used_bytes(), Ordering::Relaxed);
    }
}
