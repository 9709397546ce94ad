//! The shared memory: segments, slab pages, extents and the index; a writer half and a reader half.
//!
//! *Layout*: `layout.rs` shows every byte that another process may read. `segment_source.rs` is
//! where memory comes from, `mapped_range.rs` the range with its limit, `arena.rs` the whole,
//! `atomic_copy.rs` how shared bytes are copied. `region_allocator.rs` is the lock of an allocator:
//! `index_pool.rs`, `page_pool.rs` with `slab.rs` and `mixed.rs`, and `extent.rs`; `bucket.rs` and
//! `table.rs` are the index with its entries; `sequence.rs` and `pins.rs` are the two protocols,
//! over the words of `atomic_word.rs`, `retired_blocks.rs` is blocks that pins may still hold,
//! `pin_slots.rs` hands out pins, `access_reports.rs` reports what readers use; `reserved.rs` is
//! blocks that are filled before they are linked, `upload_region.rs` memory that clients write
//! their values to; `reader.rs` is what a process with a read-only mapping does;
//! `protocol_rules.rs` names the rules between the two; `prefetch.rs` asks the processor's cache.
//! *Invariants*: only the process that owns the arena writes it, and every store that a reader may
//! see is a relaxed atomic word inside an odd sequence; index memory is never reused for values; an
//! entry is unlinked before its memory is reused; what a reader copied counts only after the
//! sequences have been checked again.
//! *Not here*: locks of shards, databases, expiry by time, system calls.

pub mod access_reports;
mod arena;
pub mod atomic_copy;
pub mod atomic_word;
mod bucket;
mod extent;
mod holes;
mod index_pool;
pub mod layout;
mod mapped_range;
mod mixed;
mod page_list;
mod page_pool;
mod pin_slots;
pub mod pins;
mod prefetch;
pub mod protocol_rules;
pub mod reader;
mod region_allocator;
mod reserved;
mod retired_blocks;
mod segment_source;
pub mod sequence;
mod size_class;
mod slab;
mod table;
mod upload_region;

pub use arena::{Arena, ArenaConfig, ArenaError, Usage};
pub use extent::{BlockOwner, Obstacle, SlideBudget, SlideStep, TopStep};
pub use layout::{AccessMark, Cost, Encoding, Grace, ValueType};
pub use mapped_range::{LimitPolicy, NeedRoom, Region};
pub use page_pool::{DrainStep, PageOwner};
pub use prefetch::{prefetch_line, prefetch_to_write};
pub use reserved::ReservedBlock;
pub use segment_source::{HeapSource, SegmentError, SegmentSource};
pub use table::{ADOPTED_BYTES_MIN, APPEND_SPARE_BYTES_MAX};
pub use table::{
    Detached, Drained, Entry, EntryId, Fill, HeldUpload, HeldValue, NewValue, Slid, Source, Spill,
    Table,
};
pub use upload_region::{Claim, UploadError, UploadRun, UploadUsage, Uploaded, Uploader, Uploads};
