//! The shared memory: segments, slab pages, extents and the index; a writer half and a reader half.
//!
//! *Layout*: `layout.rs` shows every byte that another process may read. `source.rs` is where
//! memory comes from, `memory.rs` the mapped range, `words.rs` how shared bytes are copied.
//! `index_pool.rs`, `page_pool.rs` with `slab.rs` and `mixed.rs`, and `extent.rs` allocate;
//! `bucket.rs` and `table.rs` are the index with its entries; `sequence.rs` and `pins.rs` are the
//! two protocols, `retired.rs` is blocks that pins may still hold, `pin_slots.rs` hands out pins,
//! `touches.rs` reports what readers use; `reserved.rs` is blocks that are filled before they are
//! linked, `upload.rs` memory that clients write their values to; `reader.rs` is what a process
//! with a read-only mapping does; `rules.rs` names the rules between the two.
//! *Invariants*: only the process that owns the arena writes it, and every store that a reader may
//! see is a relaxed atomic word inside an odd sequence; index memory is never reused for values; an
//! entry is unlinked before its memory is reused; what a reader copied counts only after the
//! sequences have been checked again.
//! *Not here*: locks of shards, databases, expiry by time, system calls.

mod bucket;
mod extent;
pub mod facade;
mod index_pool;
pub mod layout;
mod memory;
mod mixed;
mod page_list;
mod page_pool;
mod pin_slots;
pub mod pins;
mod pool;
pub mod reader;
mod reserved;
mod retired;
pub mod rules;
pub mod sequence;
mod size_class;
mod slab;
mod source;
mod table;
pub mod touches;
mod upload;
pub mod words;

pub use extent::{Extension, Owner, SlideBudget, SlideStep, TopStep};
pub use layout::{AccessMark, Encoding, ValueType};
pub use memory::{Arena, ArenaConfig, ArenaError, NeedRoom, Region, Room, Usage};
pub use page_pool::{DrainStep, PageOwner};
pub use reserved::ReservedBlock;
pub use source::{HeapSource, SegmentError, SegmentSource};
pub use table::ADOPTED_BYTES_MIN;
pub use table::{
    Detached, Drained, Entry, EntryId, Fill, HeldUpload, HeldValue, NewValue, Slid, Source, Spill,
    Table,
};
pub use upload::{Claim, UploadError, UploadRun, UploadUsage, Uploaded, Uploader, Uploads};
