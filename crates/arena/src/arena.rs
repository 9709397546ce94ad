//! The arena: the allocators of its regions over the mapped range, its limit and its root.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{HashKeys, KeyHasher, SecretHasher};

use crate::access_reports::REPORT_PERIOD;
use crate::extent::{ExtentSpace, Obstacle, SlideBudget, SlideStep, TopStep};
use crate::index_pool::IndexPool;
use crate::layout::{self, LINE_BYTES, PAGE_BYTES, block, root, table_header_offset};
use crate::mapped_range::{MappedRange, Region};
use crate::page_pool::{DrainStep, PagePool};
use crate::pin_slots::PinSlots;
use crate::pins::{HeapPins, PinMemory, PinState, PinTables};
use crate::protocol_rules::{Rule, holds};
use crate::region_allocator::{Allocator, LockedAllocator, RegionAllocator};
use crate::retired_blocks::Retired;
use crate::segment_source::{SegmentError, SegmentSource};
use crate::upload_region::Uploads;

/// What an arena is made with.
#[derive(Clone, Copy, Debug)]
pub struct ArenaConfig {
    /// The number of shards: a power of two, at most 4096.
    pub shard_count: u32,
    /// The number of databases, `1..=16`.
    pub database_count: u32,
    /// What the hashes are keyed with; readers in other processes learn the key of the index.
    pub hash_keys: HashKeys,
}

/// Why an arena cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArenaError {
    /// The range is too small for the regions.
    SpanTooSmall {
        /// Bytes that the three regions need at least.
        expected: u64,
        /// Bytes that the source has.
        found: u64,
    },
    /// The first segment could not be had.
    Segment(SegmentError),
}

impl fmt::Display for ArenaError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArenaError::SpanTooSmall { expected, found } => {
                write!(formatter, "the arena needs a range of {expected} bytes and has {found}")
            }
            ArenaError::Segment(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for ArenaError {}

/// Bytes of the arena by purpose. `touched` is what the system has really given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Root, table headers, directories, buckets and descriptors in use.
    pub index_bytes: u64,
    /// Slab pages in use.
    pub slab_bytes: u64,
    /// Blocks of the extent region in use, retired ones too.
    pub extent_bytes: u64,
    /// Private memory of the allocators: a record for each block and hole, lists of what is free.
    pub private_bytes: u64,
    /// Memory that was ever written and not given back: the arena's share of the process.
    pub touched_bytes: u64,
}

impl Usage {
    /// Returns the bytes of the range in use for any purpose.
    pub fn used_bytes(&self) -> u64 {
        self.index_bytes + self.slab_bytes + self.extent_bytes
    }
}

/// What this process's own pins are registered as: no session has this number.
const OWN_SESSION: u64 = u64::MAX;

/// The shared memory of one server or embedded engine: allocators, budget and the root.
pub struct Arena {
    pub(crate) memory: Arc<MappedRange>,
    index: RegionAllocator<IndexPool>,
    pages: RegionAllocator<PagePool>,
    extents: RegionAllocator<ExtentSpace>,
    uploads: Uploads,
    pins: PinTables,
    /// The pins of this process itself: values that are being sent from where they lie.
    own_pins: Arc<PinSlots>,
    retired: Retired,
    config: ArenaConfig,
    hasher: KeyHasher,
    secret_hasher: SecretHasher,
}

impl Arena {
    /// Makes an arena over `source`: an eighth of its range for the index, three eighths for slab
    /// pages, half for extents, in whole segments, and what the source has for uploads behind.
    ///
    /// # Errors
    /// When the range is too small or the first segment cannot be had.
    pub fn new(
        source: Box<dyn SegmentSource>,
        config: ArenaConfig,
    ) -> Result<Arc<Arena>, ArenaError> {
        let memory = Arc::new(MappedRange::new(source));
        let [slab_base, extent_base, upload_base] = regions(&memory, &config)?;
        let root_bytes = root_bytes(&config);
        for offset in (0..root_bytes).step_by(memory.segment_bytes() as usize) {
            memory
                .commit(offset, Region::Index)
                .map_err(|_| ArenaError::Segment(SegmentError("root".into())))?;
        }
        memory.begin_with(root_bytes);
        let own_table: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
        let pins = PinTables::new();
        pins.add(OWN_SESSION, own_table.clone());
        let extents = ExtentSpace::new(memory.clone(), extent_base, upload_base);
        let arena = Arena {
            index: RegionAllocator::new(
                IndexPool::new(memory.clone(), root_bytes, slab_base),
                memory.clone(),
            ),
            pages: RegionAllocator::new(
                PagePool::new(memory.clone(), slab_base, extent_base),
                memory.clone(),
            ),
            extents: RegionAllocator::new(extents, memory.clone()),
            uploads: Uploads::new(memory.clone(), upload_base),
            own_pins: Arc::new(PinSlots::new(own_table)),
            pins,
            retired: Retired::new(memory.clone()),
            hasher: KeyHasher::new(config.hash_keys.index, config.shard_count as usize),
            secret_hasher: SecretHasher::new(config.hash_keys.secret),
            config,
            memory,
        };
        arena.write_root([slab_base, extent_base, upload_base]);
        Ok(Arc::new(arena))
    }

    fn write_root(&self, [slab_base, extent_base, upload_base]: [u64; 3]) {
        // SYNC POINT: the root whole before its magic. Pairs with the loads in `Reader::open`.
        let set =
            |offset: u64, value: u64| self.memory.word(offset).store(value, Ordering::Release);
        set(root::HASH, base::hash::INDEX_HASH);
        for (at, word) in root::HASH_KEY.into_iter().zip(self.config.hash_keys.index) {
            set(at, word);
        }
        set(root::SHARD_COUNT, u64::from(self.config.shard_count));
        set(root::DATABASE_COUNT, u64::from(self.config.database_count));
        set(root::SEGMENT_BYTES, self.memory.segment_bytes());
        set(root::SLAB_BASE, slab_base);
        set(root::EXTENT_BASE, extent_base);
        set(root::UPLOAD_BASE, upload_base);
        set(root::SPAN_BYTES, self.memory.span_bytes());
        set(root::VERSION, layout::VERSION);
        set(root::MAGIC, layout::MAGIC);
    }

    /// Returns what the arena was made with.
    pub fn config(&self) -> &ArenaConfig {
        &self.config
    }

    /// Returns the hasher of this arena's keys.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns the hasher of what lies in private memory.
    pub fn secret_hasher(&self) -> &SecretHasher {
        &self.secret_hasher
    }

    /// Returns the size of a segment in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.memory.segment_bytes()
    }

    /// Limits the memory that the arena may touch, its allocators' private memory included, in
    /// bytes; 0 is no limit. Memory in use above a new, lower limit stays until the caller evicts.
    pub fn set_limit(&self, bytes: u64) {
        self.memory.set_limit(bytes);
    }

    /// Returns by how many bytes the index may pass the limit.
    pub fn slack_bytes(&self) -> u64 {
        self.memory.slack_bytes()
    }

    /// Returns the bytes that the index keeps whatever keys go: those in use while there is no
    /// table, and those that were ever touched.
    pub fn index_floor(&self) -> (u64, u64) {
        (root_bytes(&self.config), self.index().touched_bytes())
    }

    /// Returns the bytes of the blocks that are pinned now. Costs a scan of all pins. What a client
    /// has written there is looked up in the server's own records before memory is read.
    pub fn pinned_bytes(&self) -> u64 {
        self.extents().bytes_at(self.pinned_offsets())
    }

    /// Returns the offsets that clients have pinned now, or have written where they write those,
    /// in ascending order, each once. Costs a scan of all pins.
    pub fn pinned_offsets(&self) -> Vec<u64> {
        let mut offsets = Vec::new();
        self.pins.for_each(|offset| offsets.push(offset));
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }

    /// Returns what is in the way of the block at `offset` becoming `bytes` large where it lies.
    /// The caller holds no shard; it locks that of the owner to move or evict what is.
    pub fn plan_extension(&self, offset: u64, bytes: u64) -> Obstacle {
        self.extents().plan_extension(offset, bytes)
    }

    /// Returns the bytes in use by purpose.
    pub fn usage(&self) -> Usage {
        Usage {
            index_bytes: self.index.used_bytes(),
            slab_bytes: self.pages.used_bytes(),
            extent_bytes: self.extents.used_bytes(),
            private_bytes: self.memory.private_bytes(),
            touched_bytes: self.memory.touched_bytes(),
        }
    }

    /// Turns one-sided reads of other processes off (`false`) or on.
    pub fn allow_readers(&self, allowed: bool) {
        let generation = self.memory.word(root::GENERATION);
        let odd = generation.load(Ordering::Relaxed) % 2 == 1;
        if odd == allowed {
            // SYNC POINT: readers look at the generation before and after each read.
            generation.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Tells readers whether they are to report what they use: [`crate::access_reports`].
    pub fn want_access_reports(&self, wanted: bool) {
        let period = if wanted { u64::from(REPORT_PERIOD) } else { 0 };
        self.memory.word(root::TOUCH_PERIOD).store(period, Ordering::Relaxed);
    }

    /// Tells readers how many bytes of values the views of one session may hold, so that it copies
    /// what is beyond; 0 is no limit.
    pub fn limit_views(&self, bytes: u64) {
        self.memory.word(root::VIEW_SHARE).store(bytes, Ordering::Relaxed);
    }

    /// Returns what [`Arena::limit_views`] was told last.
    pub fn view_share(&self) -> u64 {
        self.memory.word(root::VIEW_SHARE).load(Ordering::Relaxed)
    }

    /// Returns the segment epoch. Code that tells a reader which segments there are reads it first:
    /// the reader then learns of every later change.
    pub fn segment_epoch(&self) -> u64 {
        // SYNC POINT: segments before their epoch. Pairs with the store in `bump_segment_epoch`.
        self.memory.word(root::SEGMENT_EPOCH).load(Ordering::Acquire)
    }

    /// Returns the memory that clients write their values to.
    pub fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    /// Returns the pin tables of the sessions.
    pub fn pins(&self) -> &PinTables {
        &self.pins
    }

    /// Chooses a segment of slab pages to be emptied so that another region can have its memory:
    /// its free pages are handed out no more, until [`Arena::end_drain`]. Returns whether free
    /// pages elsewhere suffice for all of its entries; `None` when there is no segment.
    pub fn begin_drain(&self) -> Option<bool> {
        self.pages().begin_drain()
    }

    /// Returns the next page to empty. The caller holds no shard, locks that of the owner and calls
    /// [`crate::Table::drain_page`]; `None` when all pages of the segment have been returned once.
    pub fn plan_drain(&self) -> Option<DrainStep> {
        self.pages().plan_drain()
    }

    /// Ends what [`Arena::begin_drain`] began: what is left of the segment is used again.
    pub fn end_drain(&self) {
        self.pages().end_drain();
    }

    /// Returns how many values this process holds.
    pub fn held_count(&self) -> usize {
        self.own_pins.taken_count()
    }

    pub(crate) fn own_pins(&self) -> &Arc<PinSlots> {
        &self.own_pins
    }

    /// Returns the next block to slide so that an extent of `bytes` finds room, and charges
    /// `budget`; `None` when there is room already or none to be had this way. The caller holds no
    /// shard, locks that of the owner and calls [`crate::Table::slide`] on its table.
    pub fn plan_slide(&self, bytes: u64, budget: &mut SlideBudget) -> Option<SlideStep> {
        self.extents().plan(bytes, budget)
    }

    /// Returns a part of the extent region that is to be cleared for an extent of `bytes`, in which
    /// none of the blocks `kept` (ascending) lies.
    pub fn find_part_to_clear(&self, bytes: u64, kept: &[u64]) -> Option<Range<u64>> {
        self.extents().find_part_to_clear(bytes, kept)
    }

    /// Returns what is in the way of `part` becoming one hole. The caller holds no shard; it locks
    /// that of the owner to move or evict the block.
    pub fn plan_clearing(&self, part: &Range<u64>) -> Obstacle {
        self.extents().plan_clearing(part)
    }

    /// Returns how to take the last block before offset `below` away from the end of the extent
    /// region, so that another region can have the segments there. The caller holds no shard; it
    /// locks that of the owner to move or evict the block.
    pub fn plan_top(&self, below: u64) -> TopStep {
        self.extents().plan_top(below)
    }

    /// Returns the bytes of slab pages that were touched and are not in use.
    pub fn slab_free_bytes(&self) -> u64 {
        self.pages().free_bytes()
    }

    /// Gives free segments of any region back to the system, so that another region can have the
    /// memory. Returns the bytes given back.
    pub fn give_back(&self, bytes: u64) -> u64 {
        let slabs = self.pages().retire_free_segments();
        if slabs >= bytes { slabs } else { slabs + self.extents().retire_segments(bytes - slabs) }
    }

    /// Frees the retired blocks that no pin holds any more, and closes upload memory that nothing
    /// is left in. Costs a scan of all pins. The caller holds no shard.
    pub fn reclaim(&self) {
        self.reclaim_blocks(true);
        self.uploads.close_ended();
    }

    /// Frees those of the blocks whose release was put off that no pin holds, and returns the bytes
    /// of the others. Costs a scan of all pins where there are such blocks. The caller holds no
    /// shard.
    pub fn reclaim_deferred(&self) -> u64 {
        if self.retired.is_any_deferred() { self.reclaim_blocks(false) } else { 0 }
    }

    /// Frees the retired blocks that no pin holds any more, if there are few blocks and few pins to
    /// look at: the next upload then gets memory that is still in the processor's cache. The caller
    /// holds no shard.
    pub fn reclaim_few(&self) {
        if self.retired.are_few() && !self.pins.are_crowded() {
            self.reclaim_blocks(true);
        }
    }

    /// Returns whether the release of so much memory is put off that [`Arena::reclaim_deferred`] is
    /// due.
    #[inline]
    pub fn is_reclaim_due(&self) -> bool {
        self.retired.is_scan_due()
    }

    /// Returns whether blocks wait for their last pins, or for a scan of the pins: nobody tells
    /// when those go, so that [`Arena::reclaim`] has to be called now and then.
    pub fn has_retired(&self) -> bool {
        self.retired.is_any()
    }

    /// Scans all pins once for the blocks whose release was put off, and for `all` that wait
    /// where asked to; frees those that none holds, and returns the bytes of the others.
    fn reclaim_blocks(&self, all: bool) -> u64 {
        let free_unpinned = |blocks: &mut Vec<u64>| {
            let mut pinned = vec![false; blocks.len()];
            self.pins.mark_pinned(blocks, |index| pinned[index] = holds(Rule::PinnedKept));
            let mut pinned = pinned.into_iter();
            blocks.retain(|&block| {
                let is_pinned = pinned.next().expect("one answer for each block");
                if !is_pinned {
                    self.free_block(block);
                }
                is_pinned
            });
        };
        self.retired.recheck(all, free_unpinned, |block| self.extents().block_bytes(block))
    }

    /// Frees a block that nothing refers to any more, now or when its last pin is gone; returns
    /// whether it is free now, or is at the next [`Arena::reclaim_deferred`] unless a pin holds it:
    /// where the tables have too much in use to look through for each block, one scan is to do for
    /// many, and nobody is to hold a shard for it.
    pub(crate) fn release_block(&self, block: u64) -> bool {
        let state =
            if holds(Rule::PinnedKept) { self.pins.state_of(block) } else { PinState::Free };
        if state == PinState::Free {
            self.free_block(block);
            return true;
        }
        let bytes = {
            let mut extents = self.extents();
            extents.retire(block);
            extents.block_bytes(block)
        };
        match state {
            PinState::Unknown => self.retired.defer(block, bytes),
            PinState::Pinned | PinState::Free => self.retired.hold(block),
        }
        state == PinState::Unknown
    }

    /// Frees a block, and the upload memory of its value, which nobody can reach any more.
    fn free_block(&self, block: u64) {
        let value_at = self.memory.word(block + block::VALUE_AT).load(Ordering::Relaxed);
        self.extents().free(block);
        if value_at != 0 {
            self.uploads.release(value_at);
        }
    }

    pub(crate) fn extents(&self) -> LockedAllocator<'_, ExtentSpace> {
        self.extents.lock()
    }

    pub(crate) fn index(&self) -> LockedAllocator<'_, IndexPool> {
        self.index.lock()
    }

    pub(crate) fn pages(&self) -> LockedAllocator<'_, PagePool> {
        self.pages.lock()
    }
}

impl Allocator for IndexPool {
    fn used_bytes(&self) -> u64 {
        IndexPool::used_bytes(self)
    }

    fn private_bytes(&self) -> u64 {
        IndexPool::private_bytes(self)
    }
}

impl Allocator for PagePool {
    fn used_bytes(&self) -> u64 {
        PagePool::used_bytes(self)
    }

    fn private_bytes(&self) -> u64 {
        PagePool::private_bytes(self)
    }
}

impl Allocator for ExtentSpace {
    fn used_bytes(&self) -> u64 {
        ExtentSpace::used_bytes(self)
    }

    fn private_bytes(&self) -> u64 {
        ExtentSpace::private_bytes(self)
    }
}

fn root_bytes(config: &ArenaConfig) -> u64 {
    let shards = u64::from(config.shard_count);
    table_header_offset(u64::from(config.database_count), 0, shards).next_multiple_of(PAGE_BYTES)
}

/// Returns where the slab, the extent and the upload region start.
fn regions(memory: &MappedRange, config: &ArenaConfig) -> Result<[u64; 3], ArenaError> {
    let segment = memory.segment_bytes();
    let root = root_bytes(config).next_multiple_of(segment);
    let upload_bytes = memory.upload_bytes();
    let expected = root + 3 * segment + upload_bytes;
    if memory.span_bytes() < expected {
        return Err(ArenaError::SpanTooSmall { expected, found: memory.span_bytes() });
    }
    let upload = memory.span_bytes() - upload_bytes;
    let segments = (upload - root) / segment;
    let index = root + (segments / 8).max(1) * segment;
    let slab = index + (segments * 3 / 8).max(1) * segment;
    debug_assert!(index.is_multiple_of(LINE_BYTES) && slab < upload);
    Ok([index, slab, upload])
}
