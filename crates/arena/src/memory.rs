//! The mapped range, its regions and budget, and the arena that owns them.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{HashKeys, KeyHasher, SecretHasher};

use crate::extent::{Extension, ExtentSpace, SlideBudget, SlideStep, TopStep};
use crate::index_pool::IndexPool;
use crate::layout::{self, LINE_BYTES, PAGE_BYTES, block, root, table_header_offset};
use crate::page_pool::{DrainStep, PagePool};
use crate::pin_slots::PinSlots;
use crate::pins::{HeapPins, Look, PinMemory, PinTables};
use crate::pool::{Allocator, Held, Pool};
use crate::retired::Retired;
use crate::rules::{Rule, holds};
use crate::source::{SegmentError, SegmentSource};
use crate::touches::TOUCH_PERIOD;
use crate::upload::Uploads;
use crate::words::word;

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

/// An allocation would take the arena above its limit, or the system has no more memory. Nothing
/// has changed. The caller makes room (evicts, slides, evacuates) and tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedRoom {
    /// How many bytes were wanted.
    pub bytes: u64,
    /// Where.
    pub region: Region,
}

impl NeedRoom {
    /// Returns how much memory to free after `attempts` were not enough. In the slab and index
    /// regions the amount doubles with each attempt, up to some pages: the small entries evicted so
    /// far may have been of other size classes, or have left the index as it was. In the other
    /// regions it stays.
    pub fn after(self, attempts: u32) -> NeedRoom {
        match self.region {
            Region::Slab | Region::Index => {
                NeedRoom { bytes: self.bytes << attempts.min(10), ..self }
            }
            Region::Extent | Region::Private => self,
        }
    }
}

/// A part of the arena with an allocator of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Directories, buckets, descriptors.
    Index,
    /// Pages of small entries.
    Slab,
    /// Blocks of large entries.
    Extent,
    /// None of these: memory that the arena's user has outside of it, under the same limit.
    Private,
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

/// The index may pass the limit by this part of it,
const SLACK_SHARE: u64 = 32;
/// but by no more than this many bytes.
const SLACK_BYTES_MAX: u64 = 12 << 20;

/// What this process's own pins are registered as: no session has this number.
const OWN_SESSION: u64 = u64::MAX;

/// Whether an allocation may pass the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It answers [`NeedRoom`] instead.
    Limited,
    /// It may: nothing is evicted inside MULTI, and the overshoot is repaid after.
    Overshoot,
    /// It may by so many bytes, and answers [`NeedRoom`] beyond.
    OvershootBy(u64),
    /// It takes memory that was touched before, or none: what makes room must not use it up.
    Warm,
}

/// The mapped range and how much of it is used.
pub(crate) struct Memory {
    source: Box<dyn SegmentSource>,
    base: NonNull<u8>,
    span_bytes: u64,
    segment_bytes: u64,
    limit: AtomicU64,
    touched: AtomicU64,
    /// The private memory of the allocators, which the limit covers too.
    private: AtomicU64,
}

// SAFETY: the source may be sent, as every `SegmentSource` may, and `base` is the address of its
// memory, which it keeps wherever it is.
unsafe impl Send for Memory {}
// SAFETY: the source may be shared. Memory behind `base` is reached by atomics, or by the holder of
// the lock that the arena's rules name for it, and so by one thread at a time.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(source: Box<dyn SegmentSource>) -> Memory {
        let (base, span_bytes) = (source.base(), source.span_bytes());
        let segment_bytes = source.segment_bytes();
        Memory {
            source,
            base,
            span_bytes,
            segment_bytes,
            limit: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            private: AtomicU64::new(0),
        }
    }

    /// Returns whether other processes may read by themselves now.
    pub(crate) fn allows_readers(&self) -> bool {
        self.word(root::GENERATION).load(Ordering::Relaxed).is_multiple_of(2)
    }

    /// Returns the address of `offset`.
    #[inline(always)]
    pub fn pointer(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset < self.span_bytes, "offset {offset:#x} is outside the arena");
        self.base.as_ptr().wrapping_add(offset as usize)
    }

    /// Returns the word at `offset`.
    #[inline(always)]
    pub fn word(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: offsets come from this arena's allocators, which hand out committed memory only,
        // and are multiples of 8; so is the base's address. Memory that was committed stays mapped
        // for as long as the source, which `self` owns.
        unsafe { word(self.pointer(offset)) }
    }

    /// Returns the size of a segment.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Commits the segment that holds `offset`.
    pub fn commit(&self, offset: u64, region: Region) -> Result<(), NeedRoom> {
        let need = NeedRoom { bytes: self.segment_bytes, region };
        if offset + self.segment_bytes > self.span_bytes {
            return Err(need);
        }
        let index = (offset / self.segment_bytes) as u32;
        self.source.commit(index).map_err(|_| need)?;
        self.bump_segment_epoch();
        Ok(())
    }

    /// Makes the segment at `offset` for uploads.
    pub fn commit_upload(&self, offset: u64) -> Result<(), SegmentError> {
        self.source.commit_upload((offset / self.segment_bytes) as u32)
    }

    /// Lets readers have the segment at `offset`, which was made for uploads and is sealed.
    pub fn publish_upload(&self, offset: u64) {
        self.source.publish_upload((offset / self.segment_bytes) as u32);
        self.bump_segment_epoch();
    }

    /// Gives the segment at `offset`, of which `touched` bytes were in use, back to the system.
    pub fn retire(&self, offset: u64, touched: u64) {
        assert_eq!(offset % self.segment_bytes, 0, "a whole segment is retired");
        self.bump_segment_epoch();
        self.source.retire((offset / self.segment_bytes) as u32);
        self.untouch(touched);
    }

    /// Gives the segment at `offset`, which was made for uploads, back to the system.
    pub fn retire_upload(&self, offset: u64) {
        self.retire(offset, 0);
    }

    /// Returns the size of the whole range.
    pub fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    /// Counts `bytes` of memory about to be written for the first time.
    pub fn touch(&self, bytes: u64, region: Region, room: Room) -> Result<(), NeedRoom> {
        self.touch_below(self.limit.load(Ordering::Relaxed), NeedRoom { bytes, region }, room)
    }

    /// As [`Memory::touch`], for the index. It may pass the limit a little: what it needs to grow
    /// is a few KiB at a time, and other regions leave their memory in whole segments only.
    pub fn touch_index(&self, bytes: u64, room: Room) -> Result<(), NeedRoom> {
        let limit = self.limit.load(Ordering::Relaxed) + self.slack_bytes();
        self.touch_below(limit, NeedRoom { bytes, region: Region::Index }, room)
    }

    /// Returns by how much the index may pass the limit.
    fn slack_bytes(&self) -> u64 {
        (self.limit.load(Ordering::Relaxed) / SLACK_SHARE).min(SLACK_BYTES_MAX)
    }

    fn touch_below(&self, limit: u64, need: NeedRoom, room: Room) -> Result<(), NeedRoom> {
        let touched = self.touched.fetch_add(need.bytes, Ordering::Relaxed) + need.bytes;
        let private = self.private.load(Ordering::Relaxed);
        let is_refused = match room {
            Room::Limited => limit != 0 && touched + private > limit,
            Room::Overshoot => false,
            Room::OvershootBy(more) => limit != 0 && touched + private > limit.saturating_add(more),
            Room::Warm => true,
        };
        if is_refused {
            self.untouch(need.bytes);
            return Err(need);
        }
        Ok(())
    }

    /// Takes back a [`Memory::touch`] whose memory is gone or was not written.
    pub fn untouch(&self, bytes: u64) {
        let before = self.touched.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more memory given back than was touched");
    }

    /// Notes that an allocator's private memory has changed from `before` bytes to `after`.
    pub fn change_private(&self, before: u64, after: u64) {
        self.private.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    fn bump_segment_epoch(&self) {
        if self.touched.load(Ordering::Relaxed) != 0 && holds(Rule::EpochGrows) {
            // SYNC POINT: a reader that sees the new epoch asks for the segments again.
            self.word(root::SEGMENT_EPOCH).fetch_add(1, Ordering::Release);
        }
    }
}

/// The shared memory of one server or embedded engine: allocators, budget and the root.
pub struct Arena {
    pub(crate) memory: Arc<Memory>,
    index: Pool<IndexPool>,
    pages: Pool<PagePool>,
    extents: Pool<ExtentSpace>,
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
        let memory = Arc::new(Memory::new(source));
        let [slab_base, extent_base, upload_base] = regions(&memory, &config)?;
        let root_bytes = root_bytes(&config);
        for offset in (0..root_bytes).step_by(memory.segment_bytes as usize) {
            memory
                .commit(offset, Region::Index)
                .map_err(|_| ArenaError::Segment(SegmentError("root".into())))?;
        }
        memory.touched.store(root_bytes, Ordering::Relaxed);
        let own_table: Arc<dyn PinMemory> = Arc::new(HeapPins::new());
        let pins = PinTables::new();
        pins.add(OWN_SESSION, own_table.clone());
        let extents = ExtentSpace::new(memory.clone(), extent_base, upload_base);
        let arena = Arena {
            index: Pool::new(IndexPool::new(memory.clone(), root_bytes, slab_base), memory.clone()),
            pages: Pool::new(PagePool::new(memory.clone(), slab_base, extent_base), memory.clone()),
            extents: Pool::new(extents, memory.clone()),
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
        set(root::SEGMENT_BYTES, self.memory.segment_bytes);
        set(root::SLAB_BASE, slab_base);
        set(root::EXTENT_BASE, extent_base);
        set(root::UPLOAD_BASE, upload_base);
        set(root::SPAN_BYTES, self.memory.span_bytes);
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
        self.memory.limit.store(bytes, Ordering::Relaxed);
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

    /// Returns the bytes of the blocks that are pinned now. Costs a look at every pin.
    pub fn pinned_bytes(&self) -> u64 {
        let mut offsets = Vec::new();
        self.pins.for_each(|offset| offsets.push(offset));
        offsets.sort_unstable();
        offsets.dedup();
        let extents = self.extents();
        offsets.into_iter().filter_map(|offset| extents.bytes_at(offset)).sum()
    }

    /// Returns what is in the way of the block at `offset` becoming `bytes` large where it lies.
    /// The caller holds no shard; it locks that of the owner to move or evict what is.
    pub fn plan_extension(&self, offset: u64, bytes: u64) -> Extension {
        self.extents().plan_extension(offset, bytes)
    }

    /// Returns the bytes in use by purpose.
    pub fn usage(&self) -> Usage {
        Usage {
            index_bytes: self.index.used_bytes(),
            slab_bytes: self.pages.used_bytes(),
            extent_bytes: self.extents.used_bytes(),
            private_bytes: self.memory.private.load(Ordering::Relaxed),
            touched_bytes: self.memory.touched.load(Ordering::Relaxed),
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

    /// Tells readers whether they are to report what they use: [`crate::touches`].
    pub fn want_touches(&self, wanted: bool) {
        let period = if wanted { u64::from(TOUCH_PERIOD) } else { 0 };
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
    /// is left in. Costs one look at every pin. The caller holds no shard.
    pub fn reclaim(&self) {
        self.reclaim_blocks(true);
        self.uploads.close_ended();
    }

    /// Frees those of the blocks whose release was put off that no pin holds, and returns the bytes
    /// of the others. Costs one look at every pin where there are such blocks. The caller holds no
    /// shard.
    pub fn reclaim_deferred(&self) -> u64 {
        if self.retired.is_any_deferred() { self.reclaim_blocks(false) } else { 0 }
    }

    /// Returns whether the release of so much memory is put off that [`Arena::reclaim_deferred`] is
    /// due.
    #[inline]
    pub fn is_reclaim_due(&self) -> bool {
        self.retired.is_look_due()
    }

    /// Returns whether blocks wait for their last pins, or for a look at them: nobody tells when
    /// those go, so that [`Arena::reclaim`] has to be called now and then.
    pub fn has_retired(&self) -> bool {
        self.retired.is_any()
    }

    /// Looks once at every pin for the blocks whose release was put off, and for `all` that wait
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
        self.retired.look(all, free_unpinned, |block| self.extents().block_bytes(block))
    }

    /// Frees a block that nothing refers to any more, now or when its last pin is gone; returns
    /// whether it is free now, or is at the next [`Arena::reclaim_deferred`] unless a pin holds it:
    /// where the tables have too much in use to look through for each block, one look is to do for
    /// many, and nobody is to hold a shard for it.
    pub(crate) fn release_block(&self, block: u64) -> bool {
        let look = if holds(Rule::PinnedKept) { self.pins.look(block) } else { Look::Free };
        if look == Look::Free {
            self.free_block(block);
            return true;
        }
        let bytes = {
            let mut extents = self.extents();
            extents.retire(block);
            extents.block_bytes(block)
        };
        match look {
            Look::Unknown => self.retired.defer(block, bytes),
            Look::Pinned | Look::Free => self.retired.hold(block),
        }
        look == Look::Unknown
    }

    /// Frees a block, and the upload memory of its value, which nobody can reach any more.
    fn free_block(&self, block: u64) {
        let value_at = self.memory.word(block + block::VALUE_AT).load(Ordering::Relaxed);
        self.extents().free(block);
        if value_at != 0 {
            self.uploads.release(value_at);
        }
    }

    pub(crate) fn extents(&self) -> Held<'_, ExtentSpace> {
        self.extents.lock()
    }

    pub(crate) fn index(&self) -> Held<'_, IndexPool> {
        self.index.lock()
    }

    pub(crate) fn pages(&self) -> Held<'_, PagePool> {
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
fn regions(memory: &Memory, config: &ArenaConfig) -> Result<[u64; 3], ArenaError> {
    let segment = memory.segment_bytes;
    let root = root_bytes(config).next_multiple_of(segment);
    let upload_bytes = u64::from(memory.source.upload_segments()) * segment;
    let expected = root + 3 * segment + upload_bytes;
    if memory.span_bytes < expected {
        return Err(ArenaError::SpanTooSmall { expected, found: memory.span_bytes });
    }
    let upload = memory.span_bytes - upload_bytes;
    let segments = (upload - root) / segment;
    let index = root + (segments / 8).max(1) * segment;
    let slab = index + (segments * 3 / 8).max(1) * segment;
    debug_assert!(index.is_multiple_of(LINE_BYTES) && slab < upload);
    Ok([index, slab, upload])
}
