//! The mapped range: its segments, and the limit that every allocation in it obeys.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::atomic_copy::word;
use crate::layout::root;
use crate::protocol_rules::{Rule, holds};
use crate::segment_source::{SegmentError, SegmentSource};

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

/// The index may pass the limit by this part of it.
const SLACK_SHARE: u64 = 32;
/// The index may pass the limit by no more than this many bytes.
const SLACK_BYTES_MAX: u64 = 12 << 20;

/// Where memory in use is above the limit by more than this many bytes, it stays so while somebody
/// makes room: pages that were touched are handed out all the same.
const CREEP_BYTES_MAX: u64 = 256 << 10;

/// Whether an allocation may pass the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitPolicy {
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
pub(crate) struct MappedRange {
    source: Box<dyn SegmentSource>,
    base: NonNull<u8>,
    span_bytes: u64,
    segment_bytes: u64,
    limit: AtomicU64,
    touched: AtomicU64,
    /// What the allocators have in use, which is less where touched memory is free.
    used: AtomicU64,
    /// The private memory of the allocators, which the limit covers too.
    private: AtomicU64,
}

// SAFETY: the source may be sent, as every `SegmentSource` may, and `base` is the address of its
// memory, which it keeps wherever it is.
unsafe impl Send for MappedRange {}
// SAFETY: the source may be shared. Memory behind `base` is reached by atomics, or by the holder of
// the lock that the arena's rules name for it, and so by one thread at a time.
unsafe impl Sync for MappedRange {}

impl MappedRange {
    pub fn new(source: Box<dyn SegmentSource>) -> MappedRange {
        let (base, span_bytes) = (source.base(), source.span_bytes());
        let segment_bytes = source.segment_bytes();
        MappedRange {
            source,
            base,
            span_bytes,
            segment_bytes,
            limit: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            used: AtomicU64::new(0),
            private: AtomicU64::new(0),
        }
    }

    /// Sets the limit; 0 is none.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Counts the root, which is written whatever the limit is.
    pub fn begin_with(&self, root_bytes: u64) {
        self.touched.store(root_bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that were ever written and not given back.
    pub fn touched_bytes(&self) -> u64 {
        self.touched.load(Ordering::Relaxed)
    }

    /// Returns the private bytes of the allocators.
    pub fn private_bytes(&self) -> u64 {
        self.private.load(Ordering::Relaxed)
    }

    /// Returns the bytes at the end of the range that are for uploads.
    pub fn upload_bytes(&self) -> u64 {
        u64::from(self.source.upload_segments()) * self.segment_bytes
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
    pub fn touch(&self, bytes: u64, region: Region, policy: LimitPolicy) -> Result<(), NeedRoom> {
        self.touch_below(self.limit.load(Ordering::Relaxed), NeedRoom { bytes, region }, policy)
    }

    /// As [`MappedRange::touch`], for the index. It may pass the limit a little: what it needs to
    /// grow is a few KiB at a time, and other regions leave their memory in whole segments only.
    pub fn touch_index(&self, bytes: u64, policy: LimitPolicy) -> Result<(), NeedRoom> {
        let limit = self.limit.load(Ordering::Relaxed) + self.slack_bytes();
        self.touch_below(limit, NeedRoom { bytes, region: Region::Index }, policy)
    }

    /// Returns by how much the index may pass the limit.
    pub fn slack_bytes(&self) -> u64 {
        (self.limit.load(Ordering::Relaxed) / SLACK_SHARE).min(SLACK_BYTES_MAX)
    }

    fn touch_below(&self, limit: u64, need: NeedRoom, policy: LimitPolicy) -> Result<(), NeedRoom> {
        let touched = self.touched.fetch_add(need.bytes, Ordering::Relaxed) + need.bytes;
        let private = self.private.load(Ordering::Relaxed);
        let is_refused = match policy {
            LimitPolicy::Limited => limit != 0 && touched + private > limit,
            LimitPolicy::Overshoot => false,
            LimitPolicy::OvershootBy(more) => {
                limit != 0 && touched + private > limit.saturating_add(more)
            }
            LimitPolicy::Warm => true,
        };
        if is_refused {
            self.untouch(need.bytes);
            return Err(need);
        }
        Ok(())
    }

    /// Takes back a [`MappedRange::touch`] whose memory is gone or was not written.
    pub fn untouch(&self, bytes: u64) {
        let before = self.touched.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more memory given back than was touched");
    }

    /// Returns whether `bytes` more of memory that was touched before would bring what is in use
    /// above the limit. More may be touched than the limit has room for, as private memory grows
    /// after the arena was full, and the index may pass the limit: who would use all of it would be
    /// above the limit again each time that keys have gone for it. False where memory in use is far
    /// above the limit: keys go until it is not, and writes do not wait for that.
    pub fn would_pass_limit(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let used = self.used.load(Ordering::Relaxed) + self.private.load(Ordering::Relaxed);
        limit != 0 && used + bytes > limit && used <= limit.saturating_add(CREEP_BYTES_MAX)
    }

    /// Notes that an allocator has `after` bytes in use, which had `before`.
    pub fn change_used(&self, before: u64, after: u64) {
        self.used.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
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
