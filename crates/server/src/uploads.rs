//! Upload memory: who may have it, how it is sealed, when it ends.
//!
//! A run is made on a unix connection and is its session's, and that of the session's lanes. It is
//! an offer until its client has mapped it and says so; then a thread seals it, and values can be
//! written. It ends with the connection or its process, and is closed once no value is left in it.
//!
//! *Not here*: what is free in it, what was committed (`arena::Uploads`).

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use arena::{UploadError, UploadRun, Uploader};
use base::prng::Prng;
use command::{MemoryRefusal, UploadOffer};
use keyspace::SweepContext;
use sys::descriptors::DESCRIPTORS_MAX;
use sys::memory::OwnedSegments;

use crate::attach::may_adopt;
use crate::config::Settings;
use crate::shared::Shared;

/// Runs that are sealed at once, each by a thread of its own.
const SEALINGS_MAX: usize = 64;
/// Of these so many are of one session, and so many of one user, ended sessions included: a client
/// can draw the sealing of its memory out for ever, and is not to stop others by it.
const SEALINGS_PER_SESSION_MAX: usize = 2;
const SEALINGS_PER_USER_MAX: usize = 8;
/// All upload memory together may take this part of `maxmemory`,
const TOTAL_SHARE: u64 = 4;
/// and this many bytes where there is no such limit.
const TOTAL_BYTES_UNLIMITED: u64 = 4 << 30;

/// Upload memory on its way to be used.
#[derive(Default)]
pub struct Sealings {
    /// The session and the user of each.
    owners: Mutex<Vec<(u64, u32)>>,
    /// Held while a run is made: of two at a time the second sees the first.
    making: Mutex<()>,
}

/// Whether one more run may be sealed.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    Admitted,
    /// Its session or user has to wait for what it has sealed already.
    Later,
    /// There are too many of all together.
    Full,
}

impl Sealings {
    fn enter(&self, session: u64, user: u32) -> Admission {
        let mut owners = self.owners();
        let count = |is_counted: &dyn Fn(&(u64, u32)) -> bool| {
            owners.iter().filter(|owner| is_counted(owner)).count()
        };
        if count(&|owner| owner.0 == session) >= SEALINGS_PER_SESSION_MAX
            || count(&|owner| owner.1 == user) >= SEALINGS_PER_USER_MAX
        {
            return Admission::Later;
        }
        if owners.len() >= SEALINGS_MAX {
            return Admission::Full;
        }
        owners.push((session, user));
        Admission::Admitted
    }

    fn leave(&self, session: u64, user: u32) {
        let mut owners = self.owners();
        let index = owners.iter().position(|owner| *owner == (session, user));
        owners.swap_remove(index.expect("it has entered"));
    }

    fn owners(&self) -> MutexGuard<'_, Vec<(u64, u32)>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Makes upload memory for the unix connection `id`. Its descriptors leave with the
    /// connection's next byte.
    pub(crate) fn offer_upload(&self, id: u64, bytes: u64) -> Result<UploadOffer, MemoryRefusal> {
        let peer = self.clients.peer(id).ok_or(MemoryRefusal::NotUnix)?;
        if self.outbound.has_unsent(id) {
            return Err(MemoryRefusal::Unsent);
        }
        let segment_bytes = self.segments.segment_bytes();
        let settings = self.settings();
        let uploads = self.keyspace().arena().uploads();
        let wanted = bytes.clamp(1, 1 << 48).next_multiple_of(segment_bytes);
        let count = wanted / segment_bytes;
        let _making = self.sealings.making.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |used: u64, most: u64| used.saturating_add(wanted) <= most;
        let total_max = total_bytes_max(&settings);
        if !fits(uploads.usage().bytes, total_max) {
            // The service thread may not have come to that of sessions that have just ended.
            uploads.close_ended();
        }
        if !fits(uploads.session_bytes(id), settings.uploads.session_bytes_max)
            || !fits(uploads.usage().bytes, total_max)
            || count > DESCRIPTORS_MAX as u64
        {
            return Err(MemoryRefusal::UploadLimit);
        }
        let may_adopt = may_adopt(peer.user_id, &settings);
        self.make_room_for_upload(wanted)?;
        let run = uploads.make(id, wanted, may_adopt).map_err(MemoryRefusal::Upload)?;
        // It counts from now on, whatever others have taken of the room meanwhile.
        self.keyspace().suspect_overshoot();
        match descriptors_of(&self.segments, run) {
            Ok(descriptors) => {
                let descriptor_count = descriptors.len();
                self.outbound.send(id, descriptors);
                let UploadRun { offset, bytes } = run;
                Ok(UploadOffer { offset, bytes, segment_bytes, may_adopt, descriptor_count })
            }
            Err(error) => {
                uploads.withdraw(id, run.offset);
                Err(MemoryRefusal::System(error.to_string()))
            }
        }
    }

    /// Evicts as a write of `bytes` would, so that a run does not have later writes refused.
    fn make_room_for_upload(&self, bytes: u64) -> Result<(), MemoryRefusal> {
        let system = |error: io::Error| MemoryRefusal::System(error.to_string());
        let mut random = Prng::new(sys::random::seed().map_err(system)?);
        let mut context = SweepContext { now: sys::clock::realtime(), random: &mut random };
        let made = self.keyspace().reserve_ahead(bytes, &mut context);
        made.map_err(|_| MemoryRefusal::OutOfMemory)
    }

    /// Has the run of session `id` at `offset` sealed; returns whether that is done. Where the
    /// session or its user has as much sealed as it may, it is asked for again too.
    ///
    /// Sealing is not for a worker: see `serve_lane`.
    pub(crate) fn open_offered(&self, id: u64, offset: u64) -> Result<bool, MemoryRefusal> {
        let user = self.clients.peer(id).ok_or(MemoryRefusal::NotUnix)?.user_id;
        let uploads = self.keyspace().arena().uploads();
        let run = match uploads.begin_seal(id, offset) {
            Ok(run) => run,
            // Asked again.
            Err(_) => return uploads.is_open(id, offset).ok_or(NO_RUN),
        };
        match self.sealings.enter(id, user) {
            Admission::Admitted => {}
            refused => {
                uploads.cancel_seal(offset);
                let is_full = refused == Admission::Full;
                return if is_full { Err(MemoryRefusal::SealingMany) } else { Ok(false) };
            }
        }
        let arena = Arc::clone(self.keyspace().arena());
        let (segments, sealings) = (Arc::clone(&self.segments), Arc::clone(&self.sealings));
        let seal = move || {
            let sealed = each_segment(&segments, run).try_for_each(|index| segments.seal(index));
            if let Err(error) = &sealed {
                tracing::warn!(id, %error, "Upload memory cannot be sealed");
            }
            arena.uploads().end_seal(offset, sealed.is_ok());
            sealings.leave(id, user);
        };
        if let Err(error) = thread::Builder::new().name("seal".to_owned()).spawn(seal) {
            self.sealings.leave(id, user);
            uploads.cancel_seal(offset);
            return Err(MemoryRefusal::System(error.to_string()));
        }
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
    match (settings.uploads.total_bytes_max, settings.max_memory) {
        (0, 0) => TOTAL_BYTES_UNLIMITED,
        (0, limit) => limit / TOTAL_SHARE,
        (total, _) => total,
    }
}

fn each_segment(segments: &OwnedSegments, run: UploadRun) -> impl Iterator<Item = u32> + use<> {
    let segment_bytes = segments.segment_bytes();
    let first = (run.offset / segment_bytes) as u32;
    first..first + (run.bytes / segment_bytes) as u32
}

fn descriptors_of(segments: &OwnedSegments, run: UploadRun) -> io::Result<Vec<OwnedFd>> {
    let exists = "a segment of an offered run exists";
    each_segment(segments, run)
        .map(|index| Ok(segments.descriptor(index)?.expect(exists)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealings_of_one_session_and_one_user_leave_room_for_others() {
        let sealings = Sealings::default();
        for session in 0..4 {
            assert_eq!(sealings.enter(session, 1), Admission::Admitted);
            assert_eq!(sealings.enter(session, 1), Admission::Admitted);
            assert_eq!(sealings.enter(session, 1), Admission::Later, "of one session");
        }
        assert_eq!(sealings.enter(5, 1), Admission::Later, "of one user");
        for user in 2..9 {
            for session in 0..8 {
                let session = u64::from(user) * 100 + session;
                assert_eq!(sealings.enter(session, user), Admission::Admitted);
            }
        }
        assert_eq!(sealings.enter(1000, 9), Admission::Full);
        sealings.leave(0, 1);
        assert_eq!(sealings.enter(0, 1), Admission::Admitted);
    }
}
