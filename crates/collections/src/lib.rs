//! Values with several elements: lists, hashes, sets, sorted sets, each compact while it is small,
//! and streams; and HyperLogLogs, which are strings.
//!
//! *Layout*: `collection.rs` is any of them, `compact_limits.rs` says how long each stays compact.
//! `list.rs`, `hash.rs`, `set.rs` and `sorted_set.rs` are the four types, each with a view for
//! reading, whose compact form may lie anywhere (`compact.rs`); `listpack.rs`, `listpack_view.rs`
//! and `intset.rs` are the compact forms, byte for byte Redis's; `listpack_search.rs` looks for
//! elements of a listpack that another process may change meanwhile. `hash_table.rs` is the hash
//! table of large ones, `pairs.rs` what it holds of a hash, `score_tree.rs` the order of large
//! sorted sets. `set/lookups.rs` asks sets for many members, `combination.rs` works out unions and
//! the like of sorted sets. `stream.rs` is a stream, which has no view and no compact form.
//! `hyperloglog.rs` is the format of a HyperLogLog.
//! `walk.rs` goes through a large collection in pieces while it is changed.
//! `element.rs` is one element as a compact form stores it, `blob.rs` one in a table of a set,
//! `chunked.rs` an array that grows a piece at a time.
//! *Invariants*: each knows the bytes of memory that it takes; no operation on a single element
//! moves more than one compact form's bytes, however large the collection is; random numbers are
//! parameters, hashes are keyed by the caller's seed.
//! *Not here*: keys, expiry, effects, lack of memory (keyspace); replies (command).
#![forbid(unsafe_code)]

mod blob;
mod chunked;
mod collection;
mod combination;
mod compact;
mod compact_limits;
mod element;
mod growth;
mod hash;
mod hash_table;
pub mod hyperloglog;
mod intset;
mod list;
mod listpack;
mod listpack_search;
mod listpack_view;
mod pairs;
mod score_tree;
mod set;
mod sorted_set;
mod stream;
mod walk;

pub use chunked::Chunked;
pub use collection::{Collection, CollectionEncoding, CollectionView};
pub use combination::{
    Aggregate, RankedMembers, ScoreSource, StoringOrder, Weighted, intersection_count,
    intersection_count_bytes_max,
};
pub use compact::Compact;
pub use compact_limits::{Limits, ListLimit, Rules};
pub use element::Element;
pub use growth::{hash_growth_bound, set_growth_bound, sorted_set_growth_bound};
pub use hash::{FIELD_TIME_MS_MAX, Hash, HashView, LiveIndexes, field_times_growth_bound};
pub use intset::{Intset, IntsetView};
pub use list::{End, List, ListView, Place};
pub use listpack::Listpack;
pub use listpack_search::{ListpackSearch, NEEDLES_AT_ONCE, Nonsense, Part};
pub use listpack_view::ListpackView;
pub use set::{Lookups, Set, SetMember, SetView};
pub use sorted_set::{Direction, MemberAt, ScoreRanges, SortedSet, SortedSetView};
pub use stream::{
    Consumer, ConsumerIndex, Entries, Group, IdText, Log, LogCounters, Pending, Producers,
    References, Removal, Stream, StreamId, StreamPart, TooLarge, Trim, TrimBounds,
};
pub use walk::{
    Freed, Growth, KeptBytes, KeptGrowth, Walk, WalkKind, WalkStep, time_of_part, walk_parts,
};

/// The longest part of a collection, in bytes: what a compact form's 32-bit sizes can count.
pub const ELEMENT_BYTES_MAX: usize = 1 << 30;

/// Returns what the allocator takes for a block of `bytes`: a word of its own, in steps of two.
///
/// Source: glibc's malloc on 64-bit machines.
#[inline]
pub(crate) const fn heap_bytes(bytes: usize) -> u64 {
    match bytes {
        0 => 0,
        1..=24 => 32,
        _ => ((bytes + 8 + 15) & !15) as u64,
    }
}
