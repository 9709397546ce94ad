//! Bytes of another process's segments as memory that this process may change for itself: a page is
//! copied when it is first written.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::fs::SealFlags;
use rustix::mm::{MapFlags, ProtFlags};

const PAGE_BYTES: u64 = 4096;

/// A private mapping of some bytes. What this process has not written yet is what the owner of the
/// segments has there, for as long as it leaves it so.
#[derive(Debug)]
pub struct PrivateCopy {
    given: NonNull<u8>,
    given_bytes: usize,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a copy is two addresses and two sizes of a mapping that is its own; it holds no reference
// to any memory and looks at none.
unsafe impl Send for PrivateCopy {}
// SAFETY: as above.
unsafe impl Sync for PrivateCopy {}

impl PrivateCopy {
    /// Maps `length` bytes from `offset` on of the segments `descriptors`, each of `segment_bytes`
    /// and one behind the other. The descriptors may be closed afterwards.
    ///
    /// # Errors
    /// `InvalidData` when a descriptor is not sealed memory of the segment's size (reading it could
    /// then fault), `InvalidInput` when they do not have all the bytes, and those of mapping.
    ///
    /// # Panics
    /// When `segment_bytes` is no multiple of 4096 other than 0.
    pub fn map(
        segment_bytes: u64,
        offset: u64,
        length: usize,
        descriptors: &[impl AsFd],
    ) -> io::Result<PrivateCopy> {
        assert!(segment_bytes > 0 && segment_bytes.is_multiple_of(PAGE_BYTES), "{segment_bytes}");
        let all_bytes = segment_bytes.saturating_mul(descriptors.len() as u64);
        let end = offset.checked_add(length as u64).filter(|&end| length > 0 && end <= all_bytes);
        let end = end.ok_or(io::ErrorKind::InvalidInput)?;
        for descriptor in descriptors {
            let seals = rustix::fs::fcntl_get_seals(descriptor)?;
            let size = rustix::fs::fstat(descriptor)?.st_size;
            if !seals.contains(SealFlags::SHRINK) || size != segment_bytes as i64 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let first = offset - offset % PAGE_BYTES;
        let given_bytes = (end.next_multiple_of(PAGE_BYTES) - first) as usize;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let given = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), given_bytes, access, flags)
        }?;
        let given = NonNull::new(given.cast::<u8>()).expect("the kernel never maps address 0");
        // SAFETY: less than a page behind the start of a mapping of at least one.
        let start = unsafe { given.add((offset - first) as usize) };
        let copy = PrivateCopy { given, given_bytes, start, length };
        for (index, descriptor) in (0..).zip(descriptors) {
            let segment = index * segment_bytes;
            let from = first.max(segment);
            let to = end.next_multiple_of(PAGE_BYTES).min(segment + segment_bytes);
            if from >= to {
                continue;
            }
            let address = given.as_ptr().wrapping_add((from - first) as usize).cast();
            let (bytes, from) = ((to - from) as usize, from - segment);
            let flags = flags | MapFlags::FIXED;
            // SAFETY: these addresses are part of the mapping above, which nobody knows of yet.
            unsafe { rustix::mm::mmap(address, bytes, access, flags, descriptor, from) }?;
        }
        Ok(copy)
    }

    /// Returns the first of the bytes; all of them can be read and written as long as the copy
    /// lives.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns how many bytes there are.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.length
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` with this very size and is released once; raw
        // pointers into it are their holders' promise.
        let result = unsafe { rustix::mm::munmap(self.given.as_ptr().cast(), self.given_bytes) };
        result.expect("a mapping of this size exists");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Backing, OwnedSegments};
    use super::*;

    const SEGMENT_BYTES: u64 = 64 * 1024;

    /// Returns the bytes of `copy`.
    fn bytes(copy: &mut PrivateCopy) -> &mut [u8] {
        // SAFETY: it is borrowed alone, and the tests change the segments at no such time.
        unsafe { std::slice::from_raw_parts_mut(copy.start().as_ptr(), copy.len()) }
    }

    #[test]
    fn what_is_written_to_a_copy_is_seen_by_nobody_else() {
        let owner = OwnedSegments::reserve(SEGMENT_BYTES, 2, Backing::OnTouch).unwrap();
        let descriptors = [0, 1].map(|index| {
            owner.commit(index).unwrap();
            owner.descriptor(index).unwrap()
        });
        let all = (2 * SEGMENT_BYTES) as usize;
        for at in 0..all {
            // SAFETY: both segments are committed, and nobody else looks at them.
            unsafe { owner.base().add(at).write(at as u8) };
        }
        // Within a page, across pages, across the segments, all of both.
        for (offset, length) in [(5, 10), (100, 9000), (SEGMENT_BYTES as usize - 3, 7), (0, all)] {
            let mut copy =
                PrivateCopy::map(SEGMENT_BYTES, offset as u64, length, &descriptors).unwrap();
            let mut other =
                PrivateCopy::map(SEGMENT_BYTES, offset as u64, length, &descriptors).unwrap();
            assert_eq!(copy.start().addr().get() % 4096, offset % 4096);
            let before: Vec<u8> = (offset..offset + length).map(|at| at as u8).collect();
            assert_eq!(bytes(&mut copy), before);
            bytes(&mut copy).fill(0xAA);
            assert_eq!(bytes(&mut other), before);
            assert!(bytes(&mut copy).iter().all(|byte| *byte == 0xAA));
            // SAFETY: as above.
            let of_owner = |at: usize| unsafe { owner.base().add(at).read() };
            assert!((offset..offset + length).all(|at| of_owner(at) == at as u8));
        }
    }

    #[test]
    fn what_is_not_there_or_could_go_is_not_mapped() {
        let owner = OwnedSegments::reserve(SEGMENT_BYTES, 2, Backing::OnTouch).unwrap();
        owner.commit(0).unwrap();
        let descriptors = [owner.descriptor(0).unwrap()];
        let map = |offset, length| {
            PrivateCopy::map(SEGMENT_BYTES, offset, length, &descriptors).map_err(|it| it.kind())
        };
        for (offset, length) in [(0, 0), (0, SEGMENT_BYTES as usize + 1), (SEGMENT_BYTES, 1)] {
            assert_eq!(map(offset, length).unwrap_err(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(map(u64::MAX, 2).unwrap_err(), io::ErrorKind::InvalidInput);
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let unsealed = rustix::fs::memfd_create("unsealed", flags).unwrap();
        rustix::fs::ftruncate(&unsealed, SEGMENT_BYTES).unwrap();
        let found = PrivateCopy::map(SEGMENT_BYTES, 0, 1, &[unsealed]);
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
