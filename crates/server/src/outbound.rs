//! Descriptors on their way out.
//!
//! A descriptor leaves with the first byte that its session is sent next (SCM_RIGHTS); until then
//! the session gets no more of them, so that a peer that does not read holds few.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The descriptors of all sessions that have not been sent.
#[derive(Default)]
pub struct Outbound {
    state: Mutex<State>,
    /// Descriptors in `waiting`.
    waiting_count: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Those that no connection has taken yet.
    waiting: BTreeMap<u64, Vec<OwnedFd>>,
    /// Sessions whose descriptors wait, here or with their connection.
    unsent: BTreeSet<u64>,
}

impl Outbound {
    /// Returns whether descriptors of an earlier reply have not been sent to session `id`.
    pub fn has_unsent(&self, id: u64) -> bool {
        self.state().unsent.contains(&id)
    }

    /// Leaves `descriptors` for session `id`. For the worker that runs the command: it sends the
    /// reply as well, and so sees at once that there are some.
    pub fn send(&self, id: u64, descriptors: Vec<OwnedFd>) {
        if descriptors.is_empty() {
            return;
        }
        self.waiting_count.fetch_add(descriptors.len(), Ordering::Relaxed);
        let mut state = self.state();
        state.unsent.insert(id);
        state.waiting.entry(id).or_default().extend(descriptors);
    }

    /// Returns whether any descriptor waits; one load, for the path of every batch.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        self.waiting_count.load(Ordering::Relaxed) > 0
    }

    /// Takes the descriptors that wait for session `id`.
    pub fn take(&self, id: u64) -> Vec<OwnedFd> {
        if !self.has_waiting() {
            return Vec::new();
        }
        let descriptors = self.state().waiting.remove(&id).unwrap_or_default();
        self.waiting_count.fetch_sub(descriptors.len(), Ordering::Relaxed);
        descriptors
    }

    /// Notes that the descriptors that were taken for session `id` are sent.
    pub fn note_sent(&self, id: u64) {
        self.state().unsent.remove(&id);
    }

    /// Forgets session `id`, which has ended.
    pub fn end(&self, id: u64) {
        self.take(id);
        self.note_sent(id);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the descriptors panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use sys::poll::Waker;

    #[test]
    fn session_has_unsent_descriptors_until_they_are_sent_or_it_ends() {
        let outbound = Outbound::default();
        let some = || vec![Waker::new().unwrap().as_fd().try_clone_to_owned().unwrap()];
        outbound.send(7, some());
        outbound.send(8, some());
        outbound.send(9, Vec::new());
        assert!(outbound.has_unsent(7) && outbound.has_unsent(8) && !outbound.has_unsent(9));
        assert_eq!(outbound.take(7).len(), 1);
        assert!(outbound.has_unsent(7) && outbound.take(7).is_empty());
        outbound.note_sent(7);
        outbound.end(8);
        assert!(!outbound.has_unsent(7) && !outbound.has_unsent(8) && !outbound.has_waiting());
    }
}
