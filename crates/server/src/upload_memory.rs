//! Upload memory: who may have it, when its pages are populated, when it ends.
//!
//! A run is made on a unix connection and is its session's, and that of the session's lanes. It is
//! an offer until its client has mapped and sealed it and says so; then a thread populates its
//! pages, and values can be written. It ends with the connection or its process, and is closed once
//! no value is left in it.
//!
//! *Not here*: what is free in it, what was committed (`arena::Uploads`), how its pages are
//! populated (`page_population.rs`).

use std::sync::Arc;

use arena::{UploadError, UploadRun, Uploader};
use command::{MemoryRefusal, UploadOffer};
use keyspace::SweepContext;
use sys::descriptors::{DESCRIPTORS_MAX, SharedDescriptor};
use sys::memfd_segments::OwnedSegments;

use crate::attach::may_adopt;
use crate::config::Settings;
use crate::page_population::Maker;
use crate::server_state::ServerState;

/// All upload memory together may take this part of `maxmemory`.
const TOTAL_SHARE: u64 = 4;
/// All upload memory together may take this many bytes where there is no `maxmemory`.
const TOTAL_BYTES_UNLIMITED: u64 = 4 << 30;

impl ServerState {
    /// Makes upload memory for the unix connection `id`. Its descriptors leave with the
    /// connection's next byte.
    pub(crate) fn offer_upload(&self, id: u64, bytes: u64) -> Result<UploadOffer, MemoryRefusal> {
        let peer = self.clients.peer(id).ok_or(MemoryRefusal::NotUnix)?;
        if self.in_flight.has_any(id) {
            return Err(MemoryRefusal::Unsent);
        }
        let segment_bytes = self.segments.segment_bytes();
        let settings = self.settings();
        let uploads = self.keyspace().arena().uploads();
        let wanted = bytes.clamp(1, 1 << 48).next_multiple_of(segment_bytes);
        let count = wanted / segment_bytes;
        let _making = self.making_upload.lock().expect("nobody who makes upload memory panics");
        let fits = |used: u64, most: u64| used.saturating_add(wanted) <= most;
        let total_max = total_bytes_max(&settings);
        if !fits(uploads.usage().bytes, total_max) {
            // The service thread may not have come to that of sessions that have just ended.
            uploads.close_ended();
        }
        if !fits(uploads.session_bytes(id), settings.sharing.upload_session_max)
            || !fits(uploads.usage().bytes, total_max)
            || count > DESCRIPTORS_MAX as u64
        {
            return Err(MemoryRefusal::UploadLimit);
        }
        let may_adopt = may_adopt(peer.user_id, &settings);
        let owner = self.quotas.owner(peer.user_id);
        let grant = self.in_flight.admit(id, owner, count as usize)?;
        self.reserve_for_request(wanted)?;
        let run = uploads.make(id, wanted, may_adopt)?;
        // It counts from now on, whatever others have taken of the room meanwhile.
        self.keyspace().suspect_overshoot();
        let descriptors = descriptors_of(&self.segments, run);
        let descriptor_count = descriptors.len();
        self.in_flight.send(id, descriptors, grant);
        let UploadRun { offset, bytes } = run;
        Ok(UploadOffer { offset, bytes, segment_bytes, may_adopt, descriptor_count })
    }

    /// Evicts as a write of `bytes` would, so that memory that sessions are given does not have
    /// later writes refused.
    pub(crate) fn reserve_for_request(&self, bytes: u64) -> Result<(), MemoryRefusal> {
        let mut random = self.runtime.generator()?;
        let now = self.runtime.clock().wall();
        let mut context = SweepContext::new(now, &mut random);
        let made = self.keyspace().reserve_private(bytes, &mut context);
        made.map_err(|_| MemoryRefusal::OutOfMemory)
    }

    /// Has the run of session `id` at `offset`, which its client has closed, opened; returns
    /// whether that is done. Asked for again it says so again.
    pub(crate) fn open_offered(&self, id: u64, offset: u64) -> Result<bool, MemoryRefusal> {
        let peer = self.clients.peer(id).ok_or(MemoryRefusal::NotUnix)?;
        let owner = self.quotas.owner(peer.user_id);
        let uploads = self.keyspace().arena().uploads();
        let Ok(run) = uploads.begin_seal(id, offset) else {
            return uploads.is_open(id, offset).ok_or(NO_RUN);
        };
        let mut all = each_segment(&self.segments, run);
        if all.any(|index| self.segments.check_closed(index).is_err()) {
            uploads.cancel_seal(offset);
            return Err(MemoryRefusal::NotClosed);
        }
        let (arena, segments) = (Arc::clone(self.keyspace().arena()), Arc::clone(&self.segments));
        let service_waker = Arc::clone(&self.service_waker);
        let huge_pages = Arc::clone(&self.huge_pages);
        let populate = move |is_wanted| {
            let is_sealed = is_wanted && populate_run(&segments, run, id);
            if arena.uploads().end_seal(offset, is_sealed) {
                huge_pages.note_filled();
            } else {
                // Its memory is given back by the service thread, which may be asleep by now.
                service_waker.wake();
            }
        };
        let begun = self.page_population.begin(Maker { session: id, owner }, populate);
        begun.inspect_err(|_| uploads.cancel_seal(offset))?;
        Ok(false)
    }

    /// Returns the upload memory of session `id`.
    pub(crate) fn uploader(&self, id: u64) -> Uploader<'_> {
        Uploader::new(self.keyspace().arena().uploads(), id)
    }
}

const NO_RUN: MemoryRefusal = MemoryRefusal::Upload(UploadError::NoRun);

/// Returns how much upload memory there may be, that of sessions that have ended included.
fn total_bytes_max(settings: &Settings) -> u64 {
    match (settings.sharing.upload_total_max, settings.memory.max_bytes) {
        (0, 0) => TOTAL_BYTES_UNLIMITED,
        (0, limit) => limit / TOTAL_SHARE,
        (total, _) => total,
    }
}

/// Brings the pages of `run`, which is session `id`'s; returns whether that worked.
fn populate_run(segments: &OwnedSegments, run: UploadRun, id: u64) -> bool {
    let brought = each_segment(segments, run).try_for_each(|index| segments.populate_pages(index));
    if let Err(error) = &brought {
        tracing::warn!(id, %error, "There is no memory for an upload");
    }
    brought.is_ok()
}

fn each_segment(segments: &OwnedSegments, run: UploadRun) -> impl Iterator<Item = u32> + use<> {
    let segment_bytes = segments.segment_bytes();
    let first = (run.offset / segment_bytes) as u32;
    first..first + (run.bytes / segment_bytes) as u32
}

fn descriptors_of(segments: &OwnedSegments, run: UploadRun) -> Vec<SharedDescriptor> {
    let exists = "a segment of an offered run exists";
    each_segment(segments, run).map(|index| segments.descriptor(index).expect(exists)).collect()
}
