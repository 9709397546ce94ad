//! The adaptive eviction policy: which keys of a full cache are worth their memory.
//!
//! A key is worth how often it is used, over its size. How often is known by two counters in the
//! entry, which forget slowly and fast; how much weight each has, shadow caches find out at run
//! time. `docs/internals/cache-policy.md` says how it works and what it achieves.
//!
//! *Layout*: `mark.rs` is what an entry keeps, `value.rs` what a key is worth by it, `shard.rs`
//! what an engine calls. A shard has `ghosts.rs` and `window.rs`; all shards share `shared.rs`, and
//! with it the shadow caches: `shadows.rs` over `sampled_keys.rs` and `lru_sizes.rs`.
//! `logarithm.rs` computes, `scatter.rs` hashes. `simulation.rs` and its folder, a feature, replay
//! traces to a cache that is attached to the policy, and to others.
//! *Invariants*: all is a function of its inputs: same calls, same seeds, same results. No counter
//! wraps. Its memory is bounded by that of the keys, and each part reports what it takes.
//! *Not here*: keys, values, and how an engine draws a random entry.
//!
//! # How an engine attaches it
//!
//! The engine makes one [`Shared`] and gives it to a [`ShardPolicy`] for each of its shards, which
//! it calls under the shard's lock. Of each entry it keeps a [`Mark`], 32 bits. A key is known by
//! its 64-bit hash (of several databases: with the database in it); what it takes, its `bytes`, is
//! what its eviction frees.
//!
//! | when | call |
//! | --- | --- |
//! | a read finds a key | [`ShardPolicy::hit`]; the entry keeps the mark that it returns |
//! | a read does not find a key, or finds it expired | [`ShardPolicy::miss`] |
//! | a key is there that was not | [`ShardPolicy::insert`]; the entry keeps the mark |
//! | a key is written over, grows or shrinks | [`ShardPolicy::write`]; the entry keeps the mark |
//! | a key is deleted, expires or is renamed | [`ShardPolicy::remove`] |
//! | all keys of the shard go at once | [`ShardPolicy::clear`] |
//! | all keys of one of its databases do | [`ShardPolicy::forget_some`] |
//! | keys are there that the policy has not seen | [`ShardPolicy::adopt`] |
//! | a shard is about to compare values | [`ShardPolicy::refresh`] |
//! | a key is evicted | [`ShardPolicy::evict`] |
//! | now and then, and with `maxmemory` | [`Shared::set_capacity`] |
//! | memory is counted | [`ShardPolicy::memory_bytes`] and [`Shared::memory_bytes`] |
//! | somebody asks what other memory would do | [`Shared::advice`] |
//!
//! To evict from a shard, the engine draws [`SAMPLES`] of its entries and leaves out those for
//! which [`ShardPolicy::is_new`] holds. It asks [`ShardPolicy::leave_window`] until that returns
//! nothing, a few times at most, and looks up the keys of the hashes that it gets: those that are
//! still there are candidates too. The candidate with the least [`ShardPolicy::value`] goes. If
//! [`ShardPolicy::should_ask_another`] holds for that value, the engine first looks in another
//! shard in the same way, and evicts the lesser one of both; for that it tells what victims were
//! worth by [`ShardPolicy::note_victim`]. `simulation/adaptive.rs` does all this.
//!
//! What an engine remembers from choice to choice it ranks by [`Value::rank`]. As long as a key is
//! not used and the blend stays, its value falls and its rank rises.
#![forbid(unsafe_code)]

mod ghosts;
mod logarithm;
mod lru_sizes;
mod mark;
mod sampled_keys;
mod scatter;
mod shadows;
mod shard;
mod shared;
#[cfg(feature = "simulation")]
pub mod simulation;
mod value;
mod window;

pub use ghosts::GhostBucket;
pub use mark::{Mark, Tick};
pub use shadows::{ADVICE_EPOCHS_MIN, Advice, EPOCH_TURNOVERS};
pub use shard::{Candidate, SAMPLES, ShardPolicy};
pub use shared::Shared;
pub use value::{Blend, Cost, Objective, Value};
pub use window::Newcomer;
