//! The atomic word that the protocols are written over: std's, or a model checker's.
//!
//! `sequence.rs` and `pins.rs` take any [`AtomicWord`], so that loom runs the very code that
//! ships, and a test can weaken one ordering and see the model fail.

use std::sync::atomic::{AtomicU64, Ordering};

/// A 64-bit word that several threads or processes share.
pub trait AtomicWord {
    /// Returns the word.
    fn load(&self, order: Ordering) -> u64;

    /// Replaces the word.
    fn store(&self, value: u64, order: Ordering);

    /// Replaces the word by `value` where that is larger, in one step.
    fn raise(&self, value: u64, order: Ordering);

    /// Orders this thread's accesses before and after.
    fn fence(order: Ordering);
}

impl AtomicWord for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    #[inline(always)]
    fn raise(&self, value: u64, order: Ordering) {
        AtomicU64::fetch_max(self, value, order);
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }
}

#[cfg(loom)]
impl AtomicWord for loom::sync::atomic::AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        loom::sync::atomic::AtomicU64::load(self, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        loom::sync::atomic::AtomicU64::store(self, value, order);
    }

    fn raise(&self, value: u64, order: Ordering) {
        loom::sync::atomic::AtomicU64::fetch_max(self, value, order);
    }

    fn fence(order: Ordering) {
        loom::sync::atomic::fence(order);
    }
}
