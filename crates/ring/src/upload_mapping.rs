//! Upload memory in the process that writes values to it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};

use sys::memfd_segments::WritableSegments;

/// One run of upload memory, mapped for writing.
pub struct UploadMemory {
    segments: WritableSegments,
    /// Where it starts in the range of the arena's segments.
    offset: u64,
    /// The buffers in use: their ends by their starts.
    held: Mutex<BTreeMap<u64, u64>>,
}

// SAFETY: the mapping may be used by any thread; each byte of it is reached through the one
// `UploadBuffer` that has it.
unsafe impl Send for UploadMemory {}
// SAFETY: as above.
unsafe impl Sync for UploadMemory {}

impl UploadMemory {
    /// Maps the run at `offset` of the arena's range, whose segments are `descriptors`.
    ///
    /// # Errors
    /// When they are not sealed memory of that size, or cannot be mapped.
    pub fn map(
        offset: u64,
        segment_bytes: u64,
        descriptors: &[impl AsFd],
    ) -> io::Result<UploadMemory> {
        if descriptors.is_empty() || segment_bytes == 0 || !segment_bytes.is_multiple_of(4096) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let segments = WritableSegments::map(segment_bytes, descriptors)?;
        Ok(UploadMemory { segments, offset, held: Mutex::default() })
    }

    /// Maps all pages, so that writes do not fault.
    pub fn touch(&self) {
        self.segments.touch();
    }

    /// Returns where the run starts in the arena's range.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.segments.bytes()
    }

    /// Returns the `length` bytes at `offset` of the arena's range, to be written; `None` where
    /// they are not all in this run, or somebody has some of them already.
    pub fn buffer(self: &Arc<UploadMemory>, offset: u64, length: u64) -> Option<UploadBuffer> {
        let end = offset.checked_add(length)?;
        if length == 0 || offset < self.offset || end > self.offset + self.bytes() {
            return None;
        }
        let mut held = self.held();
        let before = held.range(..end).next_back();
        if before.is_some_and(|(_, &before)| before > offset) {
            return None;
        }
        held.insert(offset, end);
        drop(held);
        Some(UploadBuffer { memory: Arc::clone(self), offset, length })
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.held.lock().expect("no holder of the buffers panics")
    }
}

/// Upload memory for one value, which its holder alone writes in this process. Dropping it tells
/// nobody: the server has it until it is committed or given back.
pub struct UploadBuffer {
    memory: Arc<UploadMemory>,
    offset: u64,
    length: u64,
}

impl UploadBuffer {
    /// Returns where it is in the arena's range.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn start(&self) -> *mut u8 {
        let start = (self.offset - self.memory.offset) as usize;
        self.memory.segments.base().as_ptr().wrapping_add(start)
    }
}

impl Deref for UploadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: inside the mapping, which the buffer keeps; no other buffer has a byte of it, so
        // that this process writes it through this one alone, and no other process can.
        unsafe { std::slice::from_raw_parts(self.start(), self.length as usize) }
    }
}

impl DerefMut for UploadBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this buffer is borrowed alone. The server looks at the bytes only
        // when it is told that they are there.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.length as usize) }
    }
}

impl Drop for UploadBuffer {
    fn drop(&mut self) {
        self.memory.held().remove(&self.offset);
    }
}

impl fmt::Debug for UploadBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "UploadBuffer({} bytes at {:#x})", self.length, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use sys::memfd_segments::{Backing, OwnedSegments};

    use super::*;

    const SEGMENT_BYTES: u64 = 64 * 1024;

    #[test]
    fn buffer_is_written_here_and_seen_by_the_owner_of_the_segments() {
        let owner = OwnedSegments::reserve(SEGMENT_BYTES, 4, Backing::OnTouch).unwrap();
        let descriptors: Vec<_> = [2, 3]
            .map(|index| {
                owner.offer(index).unwrap();
                owner.descriptor(index).unwrap()
            })
            .into();
        let base = 2 * SEGMENT_BYTES;
        let memory = Arc::new(UploadMemory::map(base, SEGMENT_BYTES, &descriptors).unwrap());
        memory.touch();
        let mut buffer = memory.buffer(base + SEGMENT_BYTES - 64, 128).unwrap();
        buffer.fill(7);
        for (offset, length) in [(base - 1, 2), (base, 0), (base, 2 * SEGMENT_BYTES + 1)] {
            assert!(memory.buffer(offset, length).is_none(), "outside");
        }
        for (offset, length) in [(0, 128), (64, 1), (127, 9), (0, 1), (-64, 65), (-64, 500)] {
            let offset = (base + SEGMENT_BYTES - 64).wrapping_add_signed(offset);
            assert!(memory.buffer(offset, length).is_none(), "overlaps");
        }
        assert!(memory.buffer(base + SEGMENT_BYTES + 64, 9).is_some());
        for index in [2, 3] {
            owner.check_closed(index).unwrap();
            owner.populate_pages(index).unwrap();
            let again = UploadMemory::map(0, SEGMENT_BYTES, &[owner.descriptor(index).unwrap()]);
            assert_eq!(again.err().unwrap().kind(), io::ErrorKind::PermissionDenied);
            owner.publish(index);
        }
        buffer[0] = 9;
        let at = (base + SEGMENT_BYTES - 64) as usize;
        // SAFETY: inside the segments of the test, which are mapped.
        let seen = unsafe { [owner.base().add(at).read(), owner.base().add(at + 127).read()] };
        assert_eq!(seen, [9, 7]);
        drop(buffer);
        assert!(memory.buffer(base + SEGMENT_BYTES - 64, 128).is_some());
    }
}
