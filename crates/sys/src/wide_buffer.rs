//! Memory from which a disk takes much at once.
//!
//! For each page that a disk is to read the system looks up and holds the page; of a huge page it
//! does so once.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The bytes of a huge page.
pub(crate) const HUGE_BYTES: usize = 2 << 20;
pub(crate) const PAGE_BYTES: usize = 4096;

/// Memory of this process that begins with a page, a huge one where it is as long and the system
/// has one at hand. It has zeroes at first, and takes memory as it is written.
#[derive(Debug)]
pub struct WideBuffer {
    mapping: NonNull<u8>,
    mapped_bytes: usize,
    /// Where the memory begins in the mapping, of which what is before is never touched.
    start: usize,
    bytes: usize,
}

// SAFETY: it is memory that nothing else refers to.
unsafe impl Send for WideBuffer {}

impl WideBuffer {
    /// Returns `bytes` of memory.
    ///
    /// # Errors
    /// When the system has none.
    ///
    /// # Panics
    /// When `bytes` is 0.
    pub fn new(bytes: usize) -> io::Result<WideBuffer> {
        assert!(bytes > 0, "a mapping has a page at least");
        let is_huge = bytes >= HUGE_BYTES;
        let alignment = if is_huge { HUGE_BYTES } else { PAGE_BYTES };
        let mapped_bytes = bytes
            .checked_next_multiple_of(PAGE_BYTES)
            .and_then(|pages| pages.checked_add(alignment - PAGE_BYTES))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the system chooses, is in nobody's way.
        let mapping =
            unsafe { mmap_anonymous(ptr::null_mut(), mapped_bytes, access, MapFlags::PRIVATE) }?;
        let mapping = NonNull::new(mapping.cast::<u8>()).expect("nothing is mapped at null");
        let start = mapping.addr().get().next_multiple_of(alignment) - mapping.addr().get();
        let buffer = WideBuffer { mapping, mapped_bytes, start, bytes };
        if is_huge {
            // SAFETY: the range is within the mapping, and the advice changes no content. A system
            // without huge pages refuses it, and then small ones serve.
            let _ =
                unsafe { madvise(buffer.as_ptr().cast_mut().cast(), bytes, Advice::LinuxHugepage) };
        }
        Ok(buffer)
    }

    /// Returns where the memory begins.
    pub(crate) fn start(&self) -> NonNull<u8> {
        // SAFETY: it begins within the mapping.
        unsafe { self.mapping.add(self.start) }
    }

    /// Returns how long the memory is, without borrowing it.
    pub(crate) fn byte_count(&self) -> usize {
        self.bytes
    }
}

impl Deref for WideBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes from there on are in the mapping, are initialized by the system,
        // and are borrowed with the buffer.
        unsafe { slice::from_raw_parts(self.start().as_ptr(), self.bytes) }
    }
}

impl DerefMut for WideBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else borrows them.
        unsafe { slice::from_raw_parts_mut(self.start().as_ptr(), self.bytes) }
    }
}

impl Drop for WideBuffer {
    fn drop(&mut self) {
        // SAFETY: it is this buffer's own mapping, which nothing refers to any more.
        let unmapped = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of one's own can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_with_a_page_and_is_as_long_as_asked_for() {
        for (bytes, alignment) in [(1, PAGE_BYTES), (PAGE_BYTES + 1, PAGE_BYTES)]
            .into_iter()
            .chain([(HUGE_BYTES, HUGE_BYTES), (3 * HUGE_BYTES + 5, HUGE_BYTES)])
        {
            let mut buffer = WideBuffer::new(bytes).unwrap();
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % alignment), (bytes, 0));
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
            assert!(buffer.iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn too_much_is_refused() {
        for bytes in [usize::MAX, usize::MAX / 2] {
            assert_eq!(WideBuffer::new(bytes).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        }
    }
}
