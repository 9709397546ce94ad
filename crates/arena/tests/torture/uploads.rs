//! A client that writes its values to upload memory, simulated in the process of the writer.

use std::sync::Arc;

use arena::{Arena, Uploader};
use ring::UploadMemory;
use sys::memfd_segments::OwnedSegments;

use crate::SEGMENT_BYTES;

/// The segments of its memory: so few that it is often full.
const SEGMENT_COUNT: u64 = 3;

/// A client with upload memory.
pub struct UploadClient {
    arena: Arc<Arena>,
    session: u64,
    memory: Arc<UploadMemory>,
}

impl UploadClient {
    /// Begins `session` with memory of its own; `None` while that of others takes all.
    pub fn begin(arena: &Arc<Arena>, segments: &OwnedSegments, session: u64) -> Option<Self> {
        let run = arena.uploads().make(session, SEGMENT_COUNT * SEGMENT_BYTES, true).ok()?;
        let first = (run.offset / SEGMENT_BYTES) as u32;
        let indexes = first..first + SEGMENT_COUNT as u32;
        let descriptor = |index| segments.descriptor(index);
        let descriptors: Option<Vec<_>> = indexes.clone().map(descriptor).collect();
        let descriptors = descriptors.expect("the segments were made just now");
        let memory = UploadMemory::map(run.offset, SEGMENT_BYTES, &descriptors).expect("addresses");
        arena.uploads().begin_seal(session, run.offset).expect("it was made just now");
        indexes.for_each(|index| segments.populate_pages(index).expect("memory"));
        assert!(arena.uploads().end_seal(run.offset, true), "its session goes on");
        Some(UploadClient { arena: arena.clone(), session, memory: Arc::new(memory) })
    }

    /// Returns what the server knows the memory by.
    pub fn uploader<'a>(&self, arena: &'a Arena) -> Uploader<'a> {
        Uploader::new(arena.uploads(), self.session)
    }

    /// Writes `value` and returns where it is; `None` where there is no room.
    pub fn upload(&self, value: &[u8]) -> Option<u64> {
        let length = value.len() as u64;
        let offset = self.uploader(&self.arena).allocate(length).ok()?;
        self.memory.buffer(offset, length).expect("nobody has it").copy_from_slice(value);
        Some(offset)
    }
}

impl Drop for UploadClient {
    fn drop(&mut self) {
        self.arena.uploads().end(self.session);
    }
}
