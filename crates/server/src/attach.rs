//! Processes that map the arena: who may, and their pin tables.
//!
//! A process maps its pin table and seals it, and the server populates the table's pages, before
//! the session gets a segment; until then the server reads no word of the table. The session ends
//! with its connection, or with its process, whichever is first; its pins end with it. What a
//! session tells of its uses lies in its pin table: `keyspace/reader_accesses.rs`.
//!
//! What views may hold is shared out among the sessions that read, and left to their clients to
//! keep to: nobody asks for a pin, and to end a session is to reuse what its views show
//! (`docs/decisions/0008-view-shares.md`).
//!
//! *Not here*: when the pages of a table are populated (`page_population.rs`).

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use arena::Arena;
use arena::pins::{PIN_TABLE_BYTES, PinMemory};
use command::{MemoryGeometry, MemoryRefusal, MemorySegments};
use keyspace::Keyspace;
use ring::SharedPins;
use sys::descriptors::DESCRIPTORS_MAX;
use sys::memfd_segments::OwnedSegments;
use sys::socket::Peer;

use crate::config::Settings;
use crate::descriptors_in_flight::DescriptorsInFlight;
use crate::page_population::{Maker, PagePopulation};
use crate::user_quotas::{QuotaGrant, Resource};

/// Sessions that may be attached at once: each costs the server a walk over its pin table
/// whenever memory is about to be reused.
pub const SESSIONS_MAX: u64 = 1024;
/// The descriptors that a session takes beside its connection's: its pin table and its process.
pub const SESSION_DESCRIPTORS: u64 = 2;
/// The process id that stands for all that cannot be seen from here.
const NO_PROCESS: i32 = 0;
/// The user id that stands for everyone who has none in this namespace.
const OVERFLOW_USER: u32 = 65_534;
/// What views may hold where the option leaves it to `maxmemory`: this part of it.
const VIEW_TOTAL_SHARE: u64 = 4;

/// What a session is told that may not read yet: an arena is never without a segment.
const NO_SEGMENTS: MemorySegments =
    MemorySegments { epoch: 0, live: Vec::new(), descriptor_count: 0 };

/// The sessions that share the arena's memory.
#[derive(Default)]
pub struct Attachments {
    sessions: Mutex<BTreeMap<u64, Session>>,
    /// What views of all sessions may hold; 0 is no limit. Changed under the lock of the sessions.
    view_bytes_max: AtomicU64,
}

/// One of them.
struct Session {
    pins: Arc<SharedPins>,
    /// Its process.
    peer: Peer,
    /// Whether what it reads shall not count as used.
    no_touch: Arc<AtomicBool>,
    state: AttachState,
    /// What its user has of the sessions, and of the descriptors that are kept for them.
    _grants: [QuotaGrant; 2],
}

/// How far it has come.
enum AttachState {
    /// Its process may not have mapped the table yet.
    Offered,
    /// The pages of the table are being brought.
    Populating,
    /// It may read: its pins are looked at.
    Reading,
    /// The pages of the table cannot be brought, for this reason.
    Refused(String),
}

impl Attachments {
    /// Begins a session for connection `id` of `client`, which is its process and its switch of
    /// CLIENT NO-TOUCH; the pin table leaves by `in_flight`.
    ///
    /// # Errors
    /// When the peer may not, or has one, or its process or user as many as these may, or the
    /// system has no descriptor left.
    pub fn begin(
        &self,
        id: u64,
        client: Option<(Peer, Arc<AtomicBool>)>,
        settings: &Settings,
        segments: &OwnedSegments,
        in_flight: &DescriptorsInFlight,
    ) -> Result<MemoryGeometry, MemoryRefusal> {
        let (peer, no_touch) = client.ok_or(MemoryRefusal::NotUnix)?;
        if !may_read(peer.user_id, settings) {
            return Err(MemoryRefusal::NotAllowed);
        }
        let mut sessions = self.sessions();
        if sessions.contains_key(&id) {
            return Err(MemoryRefusal::Attached);
        }
        // Processes in namespaces that are not visible here have no id, and all the same one.
        let is_of_process = |other: &&Session| {
            other.peer.process_id == peer.process_id && peer.process_id != NO_PROCESS
        };
        if sessions.values().filter(is_of_process).count() >= settings.sharing.sessions_process_max
        {
            return Err(MemoryRefusal::TooManyOfProcess);
        }
        let quotas = in_flight.quotas();
        let owner = quotas.owner(peer.user_id);
        let take = |resource, amount| quotas.take(resource, owner, amount);
        let own = take(Resource::Sessions, 1).ok_or(MemoryRefusal::TooManyOfUser)?;
        let kept = take(Resource::Descriptors, SESSION_DESCRIPTORS).or_else(|| {
            in_flight.forget_received();
            take(Resource::Descriptors, SESSION_DESCRIPTORS)
        });
        let kept = kept.ok_or(MemoryRefusal::Descriptors)?;
        let grant = in_flight.admit(id, owner, 1)?;
        let table = SharedPins::create()?;
        in_flight.send(id, vec![table.descriptor()], grant);
        let (pins, state, _grants) = (Arc::new(table), AttachState::Offered, [own, kept]);
        sessions.insert(id, Session { pins, peer, no_touch, state, _grants });
        Ok(MemoryGeometry {
            span_bytes: segments.span_bytes(),
            segment_bytes: segments.segment_bytes(),
            pin_bytes: PIN_TABLE_BYTES,
        })
    }

    /// Returns the segments, and sends session `id` descriptors of those made after `known`. There
    /// are none for a session that may not read yet.
    ///
    /// # Errors
    /// When there is no such session, descriptors of an earlier reply wait to be sent to it, or no
    /// descriptor is left.
    pub fn segments(
        &self,
        id: u64,
        known: u64,
        arena: &Arena,
        segments: &OwnedSegments,
        in_flight: &DescriptorsInFlight,
    ) -> Result<MemorySegments, MemoryRefusal> {
        let user = match self.sessions().get(&id).map(|session| (session.peer, &session.state)) {
            None => return Err(MemoryRefusal::NotAttached),
            Some((_, AttachState::Refused(reason))) => {
                return Err(MemoryRefusal::System(reason.clone()));
            }
            Some((_, AttachState::Offered | AttachState::Populating)) => return Ok(NO_SEGMENTS),
            Some((peer, AttachState::Reading)) => peer.user_id,
        };
        // Read first: a segment made meanwhile is in the list, though the epoch does not say so.
        let epoch = arena.segment_epoch();
        let (live, mut descriptors) = segments.live_since(known, DESCRIPTORS_MAX);
        let owner = in_flight.quotas().owner(user);
        let grant = loop {
            match in_flight.admit(id, owner, descriptors.len()) {
                // Some of them: the peer asks for the rest.
                Err(MemoryRefusal::InFlight) if descriptors.len() > 1 => {
                    descriptors.truncate(descriptors.len() / 2);
                }
                admitted => break admitted?,
            }
        };
        let descriptor_count = descriptors.len();
        in_flight.send(id, descriptors, grant);
        let live = live.iter().map(|segment| (segment.index, segment.serial)).collect();
        Ok(MemorySegments { epoch, live, descriptor_count })
    }

    /// Has the pages of the table of session `id` brought, which its process has mapped and closed,
    /// unless that has begun; then the session may read. One whose descriptor has not been received
    /// is left as it is.
    ///
    /// # Errors
    /// When the table is not closed, or there is no thread; it may be tried again.
    pub fn seal(
        self: &Arc<Attachments>,
        id: u64,
        arena: &Arc<Arena>,
        page_population: &Arc<PagePopulation>,
        in_flight: &DescriptorsInFlight,
    ) -> Result<(), MemoryRefusal> {
        let mut sessions = self.sessions();
        let Some(session) = sessions.get_mut(&id) else { return Ok(()) };
        if !matches!(session.state, AttachState::Offered) || in_flight.has_any(id) {
            return Ok(());
        }
        session.pins.check_closed().map_err(|_| MemoryRefusal::NotClosed)?;
        session.state = AttachState::Populating;
        let owner = in_flight.quotas().owner(session.peer.user_id);
        let maker = Maker { session: id, owner };
        let pins = Arc::clone(&session.pins);
        drop(sessions);
        let (attachments, arena) = (Arc::clone(self), Arc::clone(arena));
        let populate = move |is_wanted| {
            // Where it is not, the session has ended.
            if is_wanted {
                attachments.end_seal(id, pins.populate_pages(), &arena);
            }
        };
        let begun = page_population.begin(maker, populate).inspect_err(|_| {
            if let Some(session) = self.sessions().get_mut(&id) {
                session.state = AttachState::Offered;
            }
        });
        Ok(begun?)
    }

    /// Notes what came of bringing the table of session `id`, which may have ended meanwhile.
    fn end_seal(&self, id: u64, sealed: io::Result<()>, arena: &Arena) {
        let mut sessions = self.sessions();
        let Some(session) = sessions.get_mut(&id) else { return };
        session.state = match sealed {
            Ok(()) => {
                // Under the lock, so that the end of the session finds it done or not begun.
                let pins: Arc<dyn PinMemory> = Arc::<SharedPins>::clone(&session.pins);
                arena.pins().add_session(id, pins, Arc::clone(&session.no_touch));
                AttachState::Reading
            }
            Err(error) => {
                tracing::warn!(id, %error, "There is no memory for a pin table");
                AttachState::Refused(error.to_string())
            }
        };
        self.share_views(&sessions, arena);
    }

    /// Ends the session of connection `id`, if it has one; what it has reported last is taken in,
    /// and nothing else, so that who attaches and closes all the time makes nobody pay for others.
    pub fn end(&self, id: u64, keyspace: &Keyspace) {
        let mut sessions = self.sessions();
        let ended = sessions.remove(&id);
        if ended.is_some() {
            self.share_views(&sessions, keyspace.arena());
        }
        drop(sessions);
        if let Some(Session { pins, state: AttachState::Reading, .. }) = ended {
            let pins: Arc<dyn PinMemory> = pins;
            keyspace.end_session(&pins, sys::clock::realtime());
        }
    }

    /// Shares out anew what views may hold, as `settings` say it.
    pub fn limit_views(&self, settings: &Settings, arena: &Arena) {
        let sessions = self.sessions();
        self.view_bytes_max.store(view_bytes_max(settings), Ordering::Relaxed);
        self.share_views(&sessions, arena);
    }

    /// Tells the clients of `sessions` what the views of each may hold.
    fn share_views(&self, sessions: &BTreeMap<u64, Session>, arena: &Arena) {
        let total = self.view_bytes_max.load(Ordering::Relaxed);
        let reads = |session: &&Session| matches!(session.state, AttachState::Reading);
        let reader_count = sessions.values().filter(reads).count().max(1) as u64;
        // No share is 0, which would be no limit.
        arena.limit_views(if total == 0 { 0 } else { (total / reader_count).max(1) });
    }

    /// Returns whether session `id` may read: it sends nothing then, though it is in use.
    pub fn is_reading(&self, id: u64) -> bool {
        let sessions = self.sessions();
        sessions.get(&id).is_some_and(|session| matches!(session.state, AttachState::Reading))
    }

    /// Returns the number of sessions.
    pub fn count(&self) -> usize {
        self.sessions().len()
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<u64, Session>> {
        self.sessions.lock().expect("no holder of the sessions panics")
    }
}

/// Returns what views of all sessions may hold; 0 is no limit.
fn view_bytes_max(settings: &Settings) -> u64 {
    match settings.sharing.view_total_max {
        0 => settings.memory.max_bytes.div_ceil(VIEW_TOTAL_SHARE),
        total => total,
    }
}

/// Returns whether processes of `user_id` may read everything.
fn may_read(user_id: u32, settings: &Settings) -> bool {
    let is_listed = settings.sharing.readers.contains(&user_id);
    settings.sharing.allows_reads && (is_own(user_id) || is_listed)
}

/// Returns whether values of processes of `user_id` may stay where they wrote them: readers have to
/// trust them as they trust the server.
pub fn may_adopt(user_id: u32, settings: &Settings) -> bool {
    settings.sharing.allows_reads && is_own(user_id)
}

fn is_own(user_id: u32) -> bool {
    user_id == sys::process::user_id() && user_id != OVERFLOW_USER
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, read_text};

    #[test]
    fn own_user_and_listed_users_may_read_while_reads_are_on() {
        let own = sys::process::user_id();
        for (text, user_id, expected) in [
            ("", own, true),
            ("", own + 1, false),
            ("", OVERFLOW_USER, false),
            ("shm-read-uids 7 65534", 7, true),
            ("shm-read-uids 7 65534", 65_534, true),
            ("shm-read-uids 7", 8, false),
            ("shm-reads no", own, false),
            ("shm-reads no\nshm-read-uids 7", 7, false),
        ] {
            let mut config = Config::default();
            config.load(read_text(text.as_bytes(), None, 1)).unwrap();
            assert_eq!(may_read(user_id, &config.settings()), expected, "{text} {user_id}");
        }
    }
}
