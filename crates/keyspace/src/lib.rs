//! Databases, shards, values, expiry, eviction and watches; every change yields its effect.
//!
//! *Layout*: `keyspace.rs` is the whole and takes locks, `guard.rs` is the right to access data,
//! `view.rs` reads and `write.rs` changes one database through a guard, with `lists.rs`,
//! `hashes.rs`, `sets.rs`, `sorted_sets.rs` and `streams.rs` for collections and
//! `string_changes.rs` for strings that have a format; `relocate.rs` moves values to other keys and
//! databases, `restore.rs` turns values into bytes and back, `access.rs` works on the whole
//! keyspace, `snapshot.rs` gives the dataset of one moment while it changes; `shard.rs` is what a
//! lock protects, `store.rs` its collections, `published.rs` what
//! any thread may read without the lock. `recorder.rs` hands changes to the sink, and makes one
//! record of several. `expire.rs`, `eviction.rs`, `memory_limit.rs`, `segment_rebalance.rs` and
//! `deferred_free.rs` free memory; the policies of `eviction/` say which keys may be evicted and
//! which first, by the marks of `access_mark.rs` or by what they remember themselves.
//! `reader_accesses.rs` reads what readers in other processes report of their accesses;
//! `adopted_values.rs` stores values from upload memory, and `reserve.rs` reserves blocks for long
//! values; `key_watches.rs` serves WATCH and `key_waits.rs` the sessions that wait for a key, which
//! `ready.rs` keeps once it is there, both registered in `key_registrations.rs`, where `leases.rs`
//! has who fills a key that is not there. The other files are helpers of these.
//! *Invariants*: data is reachable only through a guard; several shards are locked by `Guard::few`
//! and `Guard::many` alone, both in ascending order; a change emits its effect before the lock is
//! released; reads never change the dataset; nothing here reads a clock or draws a random number.
//! *Not here*: commands, replies, the log that keeps effects.
#![forbid(unsafe_code)]

mod access;
mod access_mark;
mod adopted_values;
mod cache_report;
mod clearing;
mod collection_writer;
mod costs;
mod deferred_free;
mod digest;
mod encoding;
mod eviction;
mod expire;
mod extension;
mod field_times;
mod fit;
mod guard;
mod hashes;
mod index_growth_cost;
mod item;
mod key_registrations;
mod key_waits;
mod key_watches;
mod keyspace;
mod leases;
mod lists;
mod memory_limit;
mod notice;
mod object;
mod published;
mod reader_accesses;
mod ready;
mod recorder;
mod relocate;
mod reserve;
mod restore;
mod scratch;
mod segment_rebalance;
mod sets;
mod shard;
mod shard_set;
mod snapshot;
mod sorted_sets;
mod store;
mod streams;
mod string_changes;
#[cfg(test)]
mod tests;
mod view;
mod write;

pub use access::{Access, ScanQuery};
pub use adopted_values::COPIED_UNLOCKED_BYTES_MIN;
pub use arena::pins::SessionPins;
pub use arena::{
    Claim, Cost, Encoding, Entry, Fill, HeldValue, NeedRoom, Region, ReservedBlock, UploadError,
    Uploader, ValueType,
};
pub use cache_report::{AdaptiveReport, CacheReport, SizeClass};
pub use digest::DatasetDigest;
pub use effects::{
    Admission, Effect, EffectSink, EventClass, Expiry, LastUse, NO_EVENT, Record, RecordView,
    StoredForm, WriteRefusal,
};
pub use encoding::EMBSTR_BYTES_MAX;
pub use eviction::adaptive::CacheObjective;
pub use eviction::policy::EvictionPolicy;
pub use eviction::spared::Spared;
pub use expire::SweepOutcome;
pub use field_times::{FieldTime, TimeCondition, TimeOutcome};
pub use guard::{Guard, KEYS_AHEAD};
pub use item::{FoundItem, ITEM_COMMAND, ITEM_STATES, ItemTail, text_of};
pub use key_waits::{
    NewWait, QueuePlace, ServedReply, SessionWakeup, WaitEnd, WaitState, Waiter, Waits,
};
pub use key_watches::{WatchMark, Watches};
pub use keyspace::{Keyspace, shard_count_for_workers};
pub use leases::{LeaseAnswer, LeaseToken, TimedString};
pub use lists::WhenAbsent;
pub use memory_limit::SweepContext;
pub use object::{Content, Kind, Object};
pub use policy::Advice as CacheAdvice;
pub use published::{Counters, DatabaseCounts};
pub use rdb::Version as ExportVersion;
pub use ready::{AwaitedNames, ReadyKey, ReadyKeys};
pub use relocate::{MoveTerms, Moved};
pub use restore::{RestoreError, Restored};
pub use scratch::Scratch;
pub use shard::{SlotCount, is_expired};
pub use shard_set::ShardSet;
pub use snapshot::{
    HeldEntry, Snapshot, SnapshotBatch, SnapshotContent, SnapshotEnd, SnapshotOptions,
    SnapshotPiece, SnapshotRuns,
};
pub use sorted_sets::Scored;
pub use streams::StreamEffects;
pub use string_changes::StringChange;
pub use view::{PrivateCopies, ReadView, WrongType};
pub use write::{Refusal, WriteView};
