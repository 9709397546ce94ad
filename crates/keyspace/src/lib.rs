//! Databases, shards, values, expiry, eviction and watches; every change yields its effect.
//!
//! *Layout*: `keyspace.rs` is the whole and takes locks, `guard.rs` is the right to touch data,
//! `view.rs` reads and `write.rs` changes one database through a guard, `relocate.rs` gives
//! values to other keys and databases, `access.rs` works on the
//! whole keyspace; `shard.rs` is what a lock protects, `published.rs` what anyone may read without
//! it. `recorder.rs` hands changes to the sink, and makes one record of many.
//! `expire.rs`, `eviction.rs`, `room.rs` and `drain.rs` give memory back; the policies of
//! `eviction/` say which keys may go and which first, by the marks of `tracking.rs` or by what they
//! remember themselves. `touch.rs` takes in what readers in other processes have used; `watch.rs`
//! serves WATCH and `wait.rs` those who wait for a key.
//! *Invariants*: data is reachable only through a guard; several shards are locked in ascending
//! order by one function; a change emits its effect before the lock is released; reads never
//! change the dataset; nothing here reads a clock or draws a random number.
//! *Not here*: commands, replies, the log that keeps effects.
#![forbid(unsafe_code)]

mod access;
mod digest;
mod drain;
mod encoding;
mod eviction;
mod expire;
mod extension;
mod fit;
mod growth;
mod guard;
mod hashes;
mod keyspace;
mod lists;
mod object;
mod published;
mod recorder;
mod registered;
mod relocate;
mod reserve;
mod retire;
mod room;
mod scratch;
mod sets;
mod shard;
mod shard_set;
mod sorted_sets;
mod store;
#[cfg(test)]
mod tests;
mod touch;
mod tracking;
mod uploads;
mod view;
mod wait;
mod watch;
mod write;

pub use access::{Access, ScanQuery};
pub use arena::pins::SessionPins;
pub use arena::{
    Claim, Encoding, Entry, Fill, HeldValue, NeedRoom, Region, ReservedBlock, UploadError,
    Uploader, ValueType,
};
pub use digest::DatasetDigest;
pub use effects::{Admission, Effect, EffectSink, EventClass, Expiry, Record, RecordView, Refused};
pub use encoding::EMBSTR_BYTES_MAX;
pub use eviction::policy::EvictionPolicy;
pub use eviction::spared::Spared;
pub use expire::SweepOutcome;
pub use guard::Guard;
pub use keyspace::{Keyspace, shard_count_for_workers};
pub use lists::WhenAbsent;
pub use object::{Content, Kind, Object};
pub use published::{Counters, DatabaseCounts};
pub use room::SweepContext;
pub use scratch::Scratch;
pub use shard::{SlotCount, is_expired};
pub use shard_set::ShardSet;
pub use sorted_sets::Scored;
pub use uploads::COPIED_APART_BYTES_MIN;
pub use view::{PrivateCopies, ReadView, WrongType};
pub use wait::{QueuePlace, ReadyKey, Served, Service, WaitState, Waiter, Waits};
pub use watch::{WatchMark, Watches};
pub use write::{Refusal, WriteView};
