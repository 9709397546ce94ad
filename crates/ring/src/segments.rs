//! The arena's segments: in the process that owns them, and in one that reads them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use arena::reader::SegmentView;
use arena::{SegmentError, SegmentSource};
use sys::memfd_segments::private_copy::PrivateCopy;
use sys::memfd_segments::{ForeignSegments, LiveSegment, OwnedSegments};

/// Sealed shared memory as the arena's source of segments.
pub struct SharedSegments {
    segments: Arc<OwnedSegments>,
    upload_segments: u32,
}

impl SharedSegments {
    /// Returns the source of `segments`, whose descriptors other processes may have.
    pub fn new(segments: Arc<OwnedSegments>) -> SharedSegments {
        SharedSegments { segments, upload_segments: 0 }
    }

    /// Returns the source with its last `count` segments for uploads.
    pub fn with_uploads(self, count: u32) -> SharedSegments {
        SharedSegments { upload_segments: count, ..self }
    }
}

// SAFETY: `OwnedSegments` keeps one page-aligned base for as long as it lives, maps each committed
// segment read-write and zeroed inside its own range, and gives no reference to it; other
// processes can map it for reading only, by its seals.
unsafe impl SegmentSource for SharedSegments {
    fn base(&self) -> NonNull<u8> {
        self.segments.base()
    }

    fn span_bytes(&self) -> u64 {
        self.segments.span_bytes()
    }

    fn segment_bytes(&self) -> u64 {
        self.segments.segment_bytes()
    }

    fn commit(&self, index: u32) -> Result<(), SegmentError> {
        self.segments.commit(index).map_err(|error| SegmentError(error.to_string()))
    }

    fn retire(&self, index: u32) {
        self.segments.retire(index);
    }

    fn upload_segments(&self) -> u32 {
        self.upload_segments
    }

    fn commit_upload(&self, index: u32) -> Result<(), SegmentError> {
        self.segments.offer(index).map_err(|error| SegmentError(error.to_string()))
    }

    fn publish_upload(&self, index: u32) {
        self.segments.publish(index);
    }
}

/// The segments of another process, mapped read-only at their offsets in one range.
pub struct Mapped {
    base: NonNull<u8>,
    span_bytes: u64,
    segment_bytes: u64,
    segment_count: u32,
    mapping: Mutex<Mapping>,
    epoch: AtomicU64,
}

struct Mapping {
    segments: ForeignSegments,
    /// The highest serial number of a segment that was mapped.
    known: u64,
    /// Of those that are mapped, by their indices.
    serials: BTreeMap<u32, u64>,
}

// SAFETY: the address is that of a mapping that the value owns; it is only read, as relaxed atomic
// words.
unsafe impl Send for Mapped {}
// SAFETY: as above; changes of the mapping are serialised by the lock.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Reserves a range for `segment_count` segments; none is mapped, and the epoch is 0.
    ///
    /// # Errors
    /// When the address space of the process is too small.
    ///
    /// # Panics
    /// When `segment_bytes` is not a power of two of at least 4096, or the count is 0.
    pub fn reserve(segment_bytes: u64, segment_count: u32) -> io::Result<Mapped> {
        let segments = ForeignSegments::reserve(segment_bytes, segment_count)?;
        Ok(Mapped {
            base: segments.base(),
            span_bytes: segment_bytes * u64::from(segment_count),
            segment_bytes,
            segment_count,
            mapping: Mutex::new(Mapping { segments, known: 0, serials: BTreeMap::new() }),
            epoch: AtomicU64::new(0),
        })
    }

    /// Returns the highest serial number of a segment that was mapped: the owner is asked for the
    /// descriptors of those above it.
    pub fn known(&self) -> u64 {
        self.mapping().known
    }

    /// Maps what came and unmaps what went: `live` are all segments as of `epoch`, serials
    /// ascending, and `descriptors` those of the first whose serial is above [`Mapped::known`].
    /// Returns whether that is all there is; if not, the owner is asked again.
    ///
    /// # Errors
    /// `InvalidData` for a segment outside of the range or memory that is not sealed, and those of
    /// mapping; what is mapped then stays so.
    pub fn update(
        &self,
        epoch: u64,
        live: &[LiveSegment],
        descriptors: &[impl AsFd],
    ) -> io::Result<bool> {
        let Mapping { segments, known, serials } = &mut *self.mapping();
        let mut is_live = vec![false; self.segment_count as usize];
        for segment in live {
            let slot = is_live.get_mut(segment.index as usize);
            *slot.ok_or(io::ErrorKind::InvalidData)? = true;
        }
        for (index, _) in (0_u32..).zip(&is_live).filter(|(_, is_live)| !**is_live) {
            if segments.is_mapped(index) {
                segments.unmap(index)?;
                serials.remove(&index);
            }
        }
        let before = *known;
        let new = live.iter().filter(|segment| segment.serial > before);
        for (segment, descriptor) in new.clone().zip(descriptors) {
            if segments.is_mapped(segment.index) {
                segments.unmap(segment.index)?;
            }
            segments.map(segment.index, descriptor)?;
            *known = segment.serial.max(*known);
            serials.insert(segment.index, segment.serial);
        }
        let is_complete = new.count() <= descriptors.len();
        if is_complete {
            // SYNC POINT: segments mapped before their epoch. Pairs with the load in `epoch`.
            self.epoch.store(epoch, Ordering::Release);
        }
        Ok(is_complete)
    }

    /// Returns the serial numbers of the segments that `length` bytes at `offset` lie in, if all of
    /// them are mapped.
    pub fn serials_of(&self, offset: u64, length: usize) -> Option<Vec<u64>> {
        let last = offset.checked_add((length as u64).checked_sub(1)?)?;
        let indices = offset / self.segment_bytes..=last / self.segment_bytes;
        let serials = &self.mapping().serials;
        indices.map(|index| serials.get(&u32::try_from(index).ok()?).copied()).collect()
    }

    /// Maps `length` bytes at `offset` once more, for this process to change: what it writes is its
    /// own. `descriptors` are those of the segments that [`Mapped::serials_of`] names.
    ///
    /// # Errors
    /// As [`PrivateCopy::map`].
    pub fn private_copy(
        &self,
        offset: u64,
        length: usize,
        descriptors: &[OwnedFd],
    ) -> io::Result<PrivateCopy> {
        PrivateCopy::map(self.segment_bytes, offset % self.segment_bytes, length, descriptors)
    }

    fn mapping(&self) -> MutexGuard<'_, Mapping> {
        self.mapping.lock().expect("no holder of the mapping panics")
    }
}

// SAFETY: the range is reserved once and readable as a whole, zero where nothing is mapped
// (`ForeignSegments`); the epoch is set only once the owner's whole list is mapped.
unsafe impl SegmentView for Mapped {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    fn epoch(&self) -> u64 {
        // SYNC POINT: segments mapped before their epoch. Pairs with the store in `update`.
        self.epoch.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use sys::descriptors::SharedDescriptor;
    use sys::memfd_segments::Backing;

    use super::*;

    const SEGMENT_BYTES: u64 = 16 * 1024;

    const NONE: [SharedDescriptor; 0] = [];

    fn owner() -> Arc<OwnedSegments> {
        Arc::new(OwnedSegments::reserve(SEGMENT_BYTES, 8, Backing::OnTouch).unwrap())
    }

    /// Asks for one descriptor at a time until the list is mapped; returns how often.
    fn refresh(mapped: &Mapped, owner: &OwnedSegments, epoch: u64) -> usize {
        let ask = |_: &usize| {
            let (live, descriptors) = owner.live_since(mapped.known(), 1);
            mapped.update(epoch, &live, &descriptors).unwrap()
        };
        1 + (0..20).find(ask).expect("a list ends")
    }

    #[test]
    fn mapping_follows_the_owner_and_has_its_epoch_only_when_whole() {
        let owner = owner();
        let source = SharedSegments::new(owner.clone());
        let mapped = Mapped::reserve(SEGMENT_BYTES, 8).unwrap();
        for index in [0, 3, 5] {
            source.commit(index).unwrap();
        }
        let (live, descriptors) = owner.live_since(0, 1);
        assert!(!mapped.update(7, &live, &descriptors).unwrap());
        assert_eq!(mapped.epoch(), 0, "two segments are missing");
        assert_eq!(refresh(&mapped, &owner, 7), 2);
        assert_eq!(mapped.epoch(), 7);
        source.retire(3);
        source.retire(5);
        source.commit(5).unwrap();
        assert_eq!(refresh(&mapped, &owner, 8), 1, "one segment is new");
        let is_mapped = |index| mapped.mapping().segments.is_mapped(index);
        assert_eq!([0, 3, 5].map(is_mapped), [true, false, true]);
        assert_eq!(mapped.epoch(), 8);
        let serials = |index, length| mapped.serials_of(index * SEGMENT_BYTES + 7, length);
        assert_eq!((serials(0, 1), serials(5, 9)), (Some(vec![1]), Some(vec![4])));
        assert_eq!(
            (serials(3, 1), serials(0, SEGMENT_BYTES as usize), serials(0, 0)),
            Default::default()
        );
    }

    #[test]
    fn segment_outside_of_the_range_is_refused() {
        let mapped = Mapped::reserve(SEGMENT_BYTES, 8).unwrap();
        let error = mapped.update(1, &[LiveSegment { index: 8, serial: 1 }], &NONE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(mapped.epoch(), 0);
    }
}
