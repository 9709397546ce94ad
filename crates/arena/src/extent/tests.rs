//! The extent allocator against a model: sound tiles and tags, exact accounting, content intact.

use super::*;
use crate::layout::root;
use crate::memory::{Arena, ArenaConfig};
use crate::source::HeapSource;

/// Returns an arena over heap segments, about half of them for extents.
pub(super) fn heap_arena(segment_bytes: u64, segment_count: u32) -> Arc<Arena> {
    let source = Box::new(HeapSource::new(segment_bytes, segment_count));
    let config = ArenaConfig { shard_count: 1, database_count: 1, hash_seed: 7 };
    Arena::new(source, config).expect("the range is large enough")
}

/// Returns where the extent region of `arena` lies. The arena's own allocator stays unused.
pub(super) fn base_and_end(arena: &Arena) -> (u64, u64) {
    let word = |at| arena.memory.word(at).load(Ordering::Relaxed);
    (word(root::EXTENT_BASE), word(root::SPAN_BYTES))
}
