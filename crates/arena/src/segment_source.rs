//! Where segments come from: memfds in a server; the heap under miri, in tests and in programs that
//! embed an instance.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives the arena one contiguous range of addresses and fills it with segments on demand.
///
/// # Safety
/// For as long as the source lives, `base()` is constant, aligned to 4096, and the memory of each
/// committed segment is readable and writable, zero when committed, and aliased by no other Rust
/// reference. Other processes may map it read-only.
pub unsafe trait SegmentSource: Send + Sync {
    /// Returns the first byte of the range.
    fn base(&self) -> NonNull<u8>;

    /// Returns the size of the range in bytes: a multiple of `segment_bytes`.
    fn span_bytes(&self) -> u64;

    /// Returns the size of one segment in bytes: a power of two, at least 16 KiB.
    fn segment_bytes(&self) -> u64;

    /// Makes segment `index` usable: zeroed, at `base + index * segment_bytes`.
    ///
    /// # Errors
    /// When the system has no memory or no descriptors left; nothing has changed then.
    fn commit(&self, index: u32) -> Result<(), SegmentError>;

    /// Gives the memory of segment `index` back to the system; its addresses stay reserved.
    fn retire(&self, index: u32);

    /// Returns how many segments at the end of the range are for uploads: memory that another
    /// process writes and this one only reads.
    fn upload_segments(&self) -> u32 {
        0
    }

    /// Makes segment `index`, one of those for uploads, readable here, and writable for whoever
    /// gets its descriptor before it is sealed.
    ///
    /// # Errors
    /// As [`SegmentSource::commit`].
    fn commit_upload(&self, index: u32) -> Result<(), SegmentError> {
        Err(SegmentError(format!("segment {index} is not for uploads")))
    }

    /// Lets readers in other processes have segment `index`, which was made for uploads and has
    /// been sealed since.
    fn publish_upload(&self, index: u32) {
        let _ = index;
    }
}

/// Why a segment could not be had; the system's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentError(pub String);

impl fmt::Display for SegmentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "no memory segment: {}", self.0)
    }
}

impl std::error::Error for SegmentError {}

/// How the range of a [`HeapSource`] is aligned.
const HEAP_ALIGNMENT: usize = 16 * 1024;

/// Segments on the heap: one zeroed allocation for the whole range.
pub struct HeapSource {
    /// What was allocated, with room to align the range in it. An allocation that has to be aligned
    /// by the allocator is zeroed byte by byte; one that has not is the system's untouched pages.
    allocation: NonNull<u8>,
    layout: Layout,
    base: NonNull<u8>,
    span_bytes: u64,
    segment_bytes: u64,
    upload_segments: u32,
}

// SAFETY: the allocation is owned, and any thread may free it.
unsafe impl Send for HeapSource {}
// SAFETY: `&HeapSource` gives out the address alone and writes by atomic stores; who follows the
// address keeps to the arena's rules.
unsafe impl Sync for HeapSource {}

impl HeapSource {
    /// Allocates `segment_count` segments of `segment_bytes` each.
    ///
    /// # Panics
    /// As [`HeapSource::try_new`], and when the system has no such memory.
    pub fn new(segment_bytes: u64, segment_count: u32) -> HeapSource {
        let source = HeapSource::try_new(segment_bytes, segment_count);
        source.expect("the system has memory for the segments")
    }

    /// Allocates `segment_count` segments of `segment_bytes` each.
    ///
    /// # Errors
    /// When the system has no such memory.
    ///
    /// # Panics
    /// When `segment_bytes` is not a power of two of at least 16 KiB, or the count is 0.
    pub fn try_new(segment_bytes: u64, segment_count: u32) -> Result<HeapSource, SegmentError> {
        assert!(segment_bytes.is_power_of_two() && segment_bytes >= 16 * 1024);
        assert!(segment_count > 0);
        let refusal = || SegmentError("the heap has no room for all segments".to_owned());
        let span_bytes = segment_bytes.checked_mul(u64::from(segment_count)).ok_or_else(refusal)?;
        let bytes = span_bytes.checked_add(HEAP_ALIGNMENT as u64).ok_or_else(refusal)?;
        let layout = Layout::from_size_align(bytes as usize, 1).map_err(|_| refusal())?;
        // SAFETY: the layout has a size above zero, as `HEAP_ALIGNMENT` is added to it.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(refusal)?;
        let address = allocation.addr().get();
        let skipped = address.next_multiple_of(HEAP_ALIGNMENT) - address;
        // SAFETY: less than `HEAP_ALIGNMENT` bytes are skipped, of one allocation that is larger,
        // and no allocation is larger than `isize::MAX`.
        let base = unsafe { allocation.add(skipped) };
        Ok(HeapSource { allocation, layout, base, span_bytes, segment_bytes, upload_segments: 0 })
    }

    /// Returns the source with its last `count` segments for uploads.
    pub fn with_uploads(mut self, count: u32) -> HeapSource {
        self.upload_segments = count;
        self
    }
}

impl Drop for HeapSource {
    fn drop(&mut self) {
        // SAFETY: it came from the same allocator, by `alloc_zeroed` with this very layout, and is
        // freed once: whoever follows an address of it has promised to keep the source.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}

// SAFETY: the range is aligned to 16 KiB within one owned, zeroed allocation that has
// `HEAP_ALIGNMENT` bytes more than it and lives as long as the source.
unsafe impl SegmentSource for HeapSource {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    fn commit(&self, _index: u32) -> Result<(), SegmentError> {
        Ok(())
    }

    fn retire(&self, index: u32) {
        let offset = (u64::from(index) * self.segment_bytes) as usize;
        let length = self.segment_bytes as usize;
        let end = (offset + length) as u64;
        assert!(end <= self.span_bytes, "segment {index} is outside the range");
        for word in (0..length).step_by(8) {
            // SAFETY: inside the range by the assertion, which is one initialised allocation that
            // outlives the cell; aligned to 8, as base and sizes are. Who still looks at a retired
            // segment, as readers may, does so by atomics.
            let cell = unsafe { self.base.add(offset + word).cast::<AtomicU64>().as_ref() };
            cell.store(0, Ordering::Relaxed);
        }
    }

    fn upload_segments(&self) -> u32 {
        self.upload_segments
    }

    fn commit_upload(&self, _index: u32) -> Result<(), SegmentError> {
        Ok(())
    }
}
