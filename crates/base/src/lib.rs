//! What every other crate shares: identities, hashing, checksums, cluster slots, numbers, ranges of
//! indexes, patterns, walks through buckets, when to spin, and counters for tests
//! (`step_counters.rs`).
//!
//! *Layout*: one file per idea; each is pure.
//! *Invariants*: no I/O, no clock, no randomness of its own, no unsafe.
//! *Not here*: anything that knows of memory layout, sockets or commands.
#![forbid(unsafe_code)]

mod bucket_walk;
mod changing_bytes;
pub mod collisions;
pub mod crc32c;
pub mod extended;
pub mod glob;
pub mod hash;
pub mod ids;
pub mod index_range;
mod natural;
pub mod number;
pub mod number_text;
pub mod prng;
pub mod slot;
pub mod spin_policy;
pub mod step_counters;

pub use bucket_walk::BucketWalk;
pub use changing_bytes::ChangingBytes;
pub use hash::{HashKeys, Key, KeyHasher, SecretHasher};
pub use ids::{DATABASE_COUNT_MAX, DatabaseIndex, Lsn, ShardIndex, UnixMs};
pub use slot::{SLOT_COUNT, Slot, key_slot};
