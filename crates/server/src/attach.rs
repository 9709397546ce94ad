//! Processes that map the arena: who may, and their pin tables.
//!
//! The session ends with its connection, or with its process, whichever is first; its pins end
//! with it. What a session tells of its uses lies in its pin table: `keyspace/touch.rs`.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use arena::Arena;
use arena::pins::{PIN_TABLE_BYTES, PinMemory};
use command::{MemoryGeometry, MemoryRefusal, MemorySegments};
use keyspace::Keyspace;
use ring::SharedPins;
use sys::descriptors::DESCRIPTORS_MAX;
use sys::memory::OwnedSegments;
use sys::socket::Peer;

use crate::config::Settings;
use crate::outbound::Outbound;

/// Sessions that may be attached at once: each costs the server a walk over its pin table
/// whenever memory is about to be reused.
const SESSIONS_MAX: usize = 1024;
/// The user id that stands for everyone who has none in this namespace.
const OVERFLOW_USER: u32 = 65_534;

/// The sessions that share the arena's memory.
#[derive(Default)]
pub struct Attachments {
    /// The pin table of each.
    sessions: Mutex<BTreeMap<u64, Arc<dyn PinMemory>>>,
}

impl Attachments {
    /// Begins a session for connection `id` of `client`, which is its process and its switch of
    /// CLIENT NO-TOUCH; the pin table leaves by `outbound`.
    ///
    /// # Errors
    /// When the peer may not, or has one, or the system has no descriptor left.
    pub fn begin(
        &self,
        id: u64,
        client: Option<(Peer, Arc<AtomicBool>)>,
        settings: &Settings,
        arena: &Arena,
        segments: &OwnedSegments,
        outbound: &Outbound,
    ) -> Result<MemoryGeometry, MemoryRefusal> {
        let (peer, leaves_no_touch) = client.ok_or(MemoryRefusal::NotUnix)?;
        if !may_read(peer.user_id, settings) {
            return Err(MemoryRefusal::NotAllowed);
        }
        let mut sessions = self.sessions();
        if sessions.contains_key(&id) {
            return Err(MemoryRefusal::Attached);
        }
        if sessions.len() >= SESSIONS_MAX {
            return Err(MemoryRefusal::TooMany);
        }
        if outbound.has_unsent(id) {
            return Err(MemoryRefusal::Unsent);
        }
        let table = SharedPins::create()?;
        let descriptor = table.as_fd().try_clone_to_owned()?;
        let pins: Arc<dyn PinMemory> = Arc::new(table);
        arena.pins().add_session(id, Arc::clone(&pins), leaves_no_touch);
        sessions.insert(id, pins);
        outbound.send(id, vec![descriptor]);
        Ok(MemoryGeometry {
            span_bytes: segments.span_bytes(),
            segment_bytes: segments.segment_bytes(),
            pin_bytes: PIN_TABLE_BYTES,
        })
    }

    /// Returns the segments, and sends session `id` descriptors of those made after `known`.
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
        outbound: &Outbound,
    ) -> Result<MemorySegments, MemoryRefusal> {
        if !self.sessions().contains_key(&id) {
            return Err(MemoryRefusal::NotAttached);
        }
        if outbound.has_unsent(id) {
            return Err(MemoryRefusal::Unsent);
        }
        // Read first: a segment made meanwhile is in the list, though the epoch does not say so.
        let epoch = arena.segment_epoch();
        let (live, descriptors) = segments.live_since(known, DESCRIPTORS_MAX)?;
        let descriptor_count = descriptors.len();
        outbound.send(id, descriptors);
        let live = live.iter().map(|segment| (segment.index, segment.serial)).collect();
        Ok(MemorySegments { epoch, live, descriptor_count })
    }

    /// Ends the session of connection `id`, if it has one; what it has reported last is taken in,
    /// and nothing else, so that who attaches and closes all the time makes nobody pay for others.
    pub fn end(&self, id: u64, keyspace: &Keyspace) {
        let ended = self.sessions().remove(&id);
        if let Some(pins) = ended {
            keyspace.end_session(&pins, sys::clock::realtime());
        }
    }

    /// Returns the number of sessions.
    pub fn count(&self) -> usize {
        self.sessions().len()
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<dyn PinMemory>>> {
        self.sessions.lock().expect("no holder of the sessions panics")
    }
}

/// Returns whether processes of `user_id` may read everything.
fn may_read(user_id: u32, settings: &Settings) -> bool {
    let is_listed = settings.shared_read_users.contains(&user_id);
    settings.shared_reads && (is_own(user_id) || is_listed)
}

/// Returns whether values of processes of `user_id` may stay where they wrote them: readers have to
/// trust them as they trust the server.
pub fn may_adopt(user_id: u32, settings: &Settings) -> bool {
    settings.shared_reads && is_own(user_id)
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
