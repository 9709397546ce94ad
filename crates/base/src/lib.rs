//! What every other crate shares: identities, hashing, cluster slots, numbers, patterns.
//!
//! *Layout*: one file per idea; each is pure.
//! *Invariants*: no I/O, no clock, no randomness of its own, no unsafe.
//! *Not here*: anything that knows of memory layout, sockets or commands.
#![forbid(unsafe_code)]

pub mod hash;
pub mod ids;
pub mod prng;
pub mod slot;

pub use hash::{Key, KeyHasher};
pub use ids::{DATABASE_COUNT_MAX, DatabaseIndex, Lsn, ShardIndex, UnixMs};
pub use slot::{SLOT_COUNT, Slot, key_slot};
