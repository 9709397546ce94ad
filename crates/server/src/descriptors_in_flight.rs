//! Descriptors on their way out.
//!
//! A descriptor leaves with the first byte that its session is sent next (SCM_RIGHTS). What is on
//! its way, until the peer has received it, takes of what the system has for the server's user, and
//! counts as the share of the peer's. A session has those of one reply on their way at a time: a
//! peer that asks by the rules has received them before it sends anything more, which the kernel
//! knows. One that ends before leaves its socket here, closed for both sides, until they are gone:
//! that is one client less, but still a descriptor, which counts as the peer's share from the first
//! such reply on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use command::MemoryRefusal;
use sys::descriptors::SharedDescriptor;
use sys::socket::Stream;

use crate::user_quotas::{QuotaGrant, QuotaOwner, Resource, UserQuotas};

/// The descriptors of all sessions that have not been received.
pub struct DescriptorsInFlight {
    state: Mutex<State>,
    quotas: Arc<UserQuotas>,
    /// Descriptors in `waiting`.
    waiting_count: AtomicUsize,
    /// Sockets in `left`.
    left_count: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Those that no connection has taken yet.
    waiting: BTreeMap<u64, Vec<SharedDescriptor>>,
    /// The sessions that have some on their way, these included.
    sessions: BTreeMap<u64, UnderWay>,
    /// For the sockets of sessions that have had any, as they may stay behind.
    sockets: BTreeMap<u64, QuotaGrant>,
    /// What sessions that have ended had on their way, and for their sockets.
    left: Vec<(UnderWay, Option<QuotaGrant>)>,
}

/// The descriptors of one reply.
struct UnderWay {
    _grant: QuotaGrant,
    /// Where they have been sent.
    stream: Option<Arc<Stream>>,
}

impl UnderWay {
    fn is_received(&self) -> bool {
        // A socket that does not say is none that has something on its way.
        self.stream.as_ref().is_some_and(|stream| stream.is_all_received().unwrap_or(true))
    }
}

impl DescriptorsInFlight {
    /// Returns one that has nothing on its way, and takes of `quotas`.
    pub fn new(quotas: Arc<UserQuotas>) -> DescriptorsInFlight {
        DescriptorsInFlight {
            state: Mutex::default(),
            quotas,
            waiting_count: AtomicUsize::new(0),
            left_count: AtomicUsize::new(0),
        }
    }

    /// Returns what it takes of.
    pub fn quotas(&self) -> &Arc<UserQuotas> {
        &self.quotas
    }

    /// Takes the right to send session `id` `count` descriptors.
    ///
    /// # Errors
    /// When the session has not received those of an earlier reply, or `owner` has his share of
    /// them on their way, or of the descriptors that the server keeps open.
    pub fn admit(
        &self,
        id: u64,
        owner: QuotaOwner,
        count: usize,
    ) -> Result<QuotaGrant, MemoryRefusal> {
        if self.has_any(id) {
            return Err(MemoryRefusal::Unsent);
        }
        let take = |resource, amount| {
            let take = || self.quotas.take(resource, owner, amount);
            take().or_else(|| {
                self.forget_received();
                take()
            })
        };
        let grant = take(Resource::InFlight, count as u64).ok_or(MemoryRefusal::InFlight)?;
        let is_known = self.state().sockets.contains_key(&id);
        if !is_known {
            let socket = take(Resource::Descriptors, 1).ok_or(MemoryRefusal::Descriptors)?;
            self.state().sockets.insert(id, socket);
        }
        Ok(grant)
    }

    /// Returns whether session `id` has descriptors of an earlier reply still to receive.
    pub fn has_any(&self, id: u64) -> bool {
        let mut state = self.state();
        let Some(under_way) = state.sessions.get(&id) else { return false };
        if !under_way.is_received() {
            return true;
        }
        state.sessions.remove(&id);
        false
    }

    /// Leaves `descriptors` for session `id`, which [`DescriptorsInFlight::admit`] has given
    /// `grant`. For the worker that runs the command: it sends the reply as well, and so sees at
    /// once that there are some.
    pub fn send(&self, id: u64, descriptors: Vec<SharedDescriptor>, grant: QuotaGrant) {
        if descriptors.is_empty() {
            return;
        }
        self.waiting_count.fetch_add(descriptors.len(), Ordering::Relaxed);
        let mut state = self.state();
        state.waiting.entry(id).or_default().extend(descriptors);
        state.sessions.insert(id, UnderWay { _grant: grant, stream: None });
    }

    /// Returns whether any descriptor waits; one load, for the path of every batch.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        self.waiting_count.load(Ordering::Relaxed) > 0
    }

    /// Takes the descriptors that wait for session `id`.
    pub fn take(&self, id: u64) -> Vec<SharedDescriptor> {
        if !self.has_waiting() {
            return Vec::new();
        }
        let descriptors = self.state().waiting.remove(&id).unwrap_or_default();
        self.waiting_count.fetch_sub(descriptors.len(), Ordering::Relaxed);
        descriptors
    }

    /// Notes that the descriptors that were taken for session `id` have been sent by `stream`.
    pub fn note_sent(&self, id: u64, stream: &Arc<Stream>) {
        if let Some(under_way) = self.state().sessions.get_mut(&id) {
            under_way.stream = Some(Arc::clone(stream));
        }
    }

    /// Forgets session `id`, which has ended, but for what its peer has still to receive.
    pub fn end(&self, id: u64) {
        self.take(id);
        let mut state = self.state();
        let socket = state.sockets.remove(&id);
        let Some(under_way) = state.sessions.remove(&id) else { return };
        let Some(stream) = &under_way.stream else { return };
        if !under_way.is_received() {
            // Its peer learns that it is over. It is broken where that fails.
            let _ = stream.shut_down();
            state.left.push((under_way, socket));
            self.left_count.store(state.left.len(), Ordering::Relaxed);
        }
    }

    /// Returns whether sessions that have ended have left something to receive.
    pub fn has_left(&self) -> bool {
        self.left_count.load(Ordering::Relaxed) > 0
    }

    /// Forgets what peers have received.
    pub fn forget_received(&self) {
        let mut state = self.state();
        state.sessions.retain(|_, under_way| !under_way.is_received());
        state.left.retain(|(under_way, _)| !under_way.is_received());
        self.left_count.store(state.left.len(), Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the descriptors panics")
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;
    use crate::user_quotas::Limit;
    use sys::poll::Waker;
    use sys::socket::pair;

    const USER: QuotaOwner = QuotaOwner::User(1);

    /// Returns one in which a user may have four descriptors on their way.
    fn in_flight() -> DescriptorsInFlight {
        let quotas = Arc::new(UserQuotas::default());
        quotas.limit(Resource::InFlight, Limit::total(8));
        quotas.limit(Resource::Descriptors, Limit::total(6));
        DescriptorsInFlight::new(quotas)
    }

    fn send(in_flight: &DescriptorsInFlight, id: u64, count: usize) -> Result<(), MemoryRefusal> {
        let grant = in_flight.admit(id, USER, count)?;
        let descriptors = (0..count).map(|_| Waker::new().unwrap().descriptor()).collect();
        in_flight.send(id, descriptors, grant);
        Ok(())
    }

    #[test]
    fn sockets_that_ended_sessions_leave_behind_are_of_their_users_share() {
        let in_flight = in_flight();
        let mut peers = Vec::new();
        for id in 0..3 {
            let (one, two) = pair().unwrap();
            send(&in_flight, id, 1).unwrap();
            in_flight.take(id);
            one.send(b"x").unwrap();
            in_flight.note_sent(id, &Arc::new(one));
            in_flight.end(id);
            peers.push(two);
        }
        assert_eq!(send(&in_flight, 9, 1), Err(MemoryRefusal::Descriptors), "half of six is left");
        peers[1].receive(&mut [0]).unwrap();
        send(&in_flight, 9, 1).unwrap();
    }

    #[test]
    fn session_has_descriptors_on_their_way_until_they_are_received() {
        let in_flight = in_flight();
        let (one, two) = pair().unwrap();
        let one = Arc::new(one);
        send(&in_flight, 7, 1).unwrap();
        assert_eq!(send(&in_flight, 7, 1), Err(MemoryRefusal::Unsent));
        assert_eq!(in_flight.take(7).len(), 1);
        assert!(in_flight.take(7).is_empty() && !in_flight.has_waiting());
        one.send_pieces(&[IoSlice::new(b"x")], &[]).unwrap();
        in_flight.note_sent(7, &one);
        assert_eq!(send(&in_flight, 7, 1), Err(MemoryRefusal::Unsent), "sent, and not received");
        two.receive(&mut [0]).unwrap();
        send(&in_flight, 7, 1).unwrap();
        in_flight.end(7);
        assert!(!in_flight.has_any(7) && !in_flight.has_waiting() && !in_flight.has_left());
    }

    #[test]
    fn user_has_his_share_on_their_way_though_sessions_end_before_they_are_received() {
        let in_flight = in_flight();
        let (one, two) = pair().unwrap();
        send(&in_flight, 1, 4).unwrap();
        assert_eq!(send(&in_flight, 2, 1), Err(MemoryRefusal::InFlight));
        in_flight.take(1);
        one.send(b"x").unwrap();
        in_flight.note_sent(1, &Arc::new(one));
        in_flight.end(1);
        assert!(in_flight.has_left());
        assert_eq!(send(&in_flight, 2, 1), Err(MemoryRefusal::InFlight), "its peer may have it");
        two.receive(&mut [0]).unwrap();
        send(&in_flight, 2, 1).unwrap();
        assert!(!in_flight.has_left());
    }
}
