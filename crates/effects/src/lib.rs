//! The stream of changes: what writes did, framed and typed, for consumers that keep it, forward it
//! or inspect it.
//!
//! *Layout*: `effect.rs` is one change in a form that gives the same result wherever and whenever
//! it is applied; `change.rs` adds where it happened and why; `record.rs` is the bytes of all
//! changes that happen together; `filter.rs` says which changes a consumer wants. `replication.rs`
//! writes records as Redis's replication stream, `events.rs` as keyspace events. `backlog.rs` keeps
//! the latest records for consumers that each have a position of their own, `recording.rs` all of a
//! run that ends; `admission.rs` says whether writes are taken at all.
//! *Invariants*: any bytes can be read, and give a record or an error; what is written and read
//! back is the same; a record can be split off the stream without decoding its changes.
//! *Not here*: where changes come from (keyspace), how they are applied (engine), the files that
//! keep them (wal).
#![forbid(unsafe_code)]

mod admission;
mod backlog;
mod change;
mod effect;
mod events;
mod filter;
mod record;
mod recording;
mod replication;

pub use admission::{Admission, WriteRefusal};
pub use backlog::{
    BACKLOG_BYTES_MIN, BLOCK_BYTES, Backlog, BacklogExtent, Consumer, Lost, SharedRecords,
};
pub use change::{Cause, Change};
pub use effect::{Arguments, Effect, Expiry, LastUse, StoredForm};
pub use events::{EventClass, KeyspaceEvent, NO_EVENT, keyspace_events};
pub use filter::Filter;
pub use record::{
    EffectSink, EncodedRecord, Record, RecordBuilder, RecordError, RecordHeader, RecordView,
    records,
};
pub use recording::Recording;
pub use replication::ReplicationStream;
