//! Values that a connection has posted and most likely takes by itself. The server is not told of
//! them for a moment: a value that is taken meanwhile costs it nothing, and the memory that it was
//! written to, which is in the cache, is there for the next.
//!
//! The connection sends them before anything else that it sends. Where it sends nothing they are
//! for somebody else, and a thread of the session has them stored after a millisecond or two.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::error::ClientError;
use crate::late_tasks::{LateTask, LateTasks};
use crate::posts::{Put, PutValue};
use crate::shm_session::ShmSession;
use crate::value_view::View;

/// So many bytes are held at most: what is written in turn to more is not in the cache any more.
pub const HELD_BYTES_MAX: usize = 8 << 20;
/// So many times the thread of the session leaves a value to a connection that goes on posting and
/// taking others. One that does neither from one time to the next has posted it for somebody else.
const LOOKS_MAX: u32 = 4;

/// What one connection holds.
pub struct HeldPosts {
    state: Mutex<State>,
    session: Weak<ShmSession>,
    /// The client's count of posts whose replies its connections do not know.
    count: Arc<AtomicUsize>,
    tasks: Arc<LateTasks>,
}

#[derive(Default)]
struct State {
    /// In their order.
    posts: VecDeque<HeldPost>,
    bytes: usize,
    /// Whether the connection has posted or taken something since the thread looked last.
    is_used: bool,
    /// Whether the thread has had some stored that the connection was not told of.
    has_stored: bool,
    /// Why the first has failed of those that the thread had stored; not told of yet.
    failure: Option<ClientError>,
}

struct HeldPost {
    put: Put,
    /// When it may have run out, by the monotonic clock.
    end: Option<Duration>,
    /// How often the thread has seen it.
    looks: u32,
}

impl HeldPosts {
    /// Returns those of a new connection over a lane of `session`: none. `count` is the client's.
    pub fn new(session: &Arc<ShmSession>, count: &Arc<AtomicUsize>) -> Arc<HeldPosts> {
        let tasks = Arc::clone(session.late_tasks());
        let held = HeldPosts {
            state: Mutex::default(),
            session: Arc::downgrade(session),
            count: Arc::clone(count),
            tasks,
        };
        let held = Arc::new(held);
        let task: Weak<HeldPosts> = Arc::downgrade(&held);
        held.tasks.add(task);
        held
    }

    /// Holds `put`, which lives for `lifetime` if not without end; returns it where that is not to
    /// be.
    pub fn hold(&self, put: Put, lifetime: Option<Duration>) -> Result<(), Put> {
        let mut state = self.state();
        let bytes = state.bytes.saturating_add(put.value.memory_bytes());
        let is_there = state.posts.iter().any(|post| post.put.key == put.key);
        let may_be_held = match &put.value {
            PutValue::Upload(upload) => upload.may_be_held(),
            PutValue::Bytes(_) => true,
        };
        if bytes > HELD_BYTES_MAX || is_there || !may_be_held {
            return Err(put);
        }
        let end = lifetime.map(|lifetime| sys::clock::monotonic().saturating_add(lifetime));
        state.bytes = bytes;
        state.is_used = true;
        state.posts.push_back(HeldPost { put, end, looks: 0 });
        self.count.fetch_add(1, Ordering::Relaxed);
        drop(state);
        self.tasks.watch();
        Ok(())
    }

    /// Returns whether some were stored since the last call: they were for somebody else.
    pub fn has_stored(&self) -> bool {
        std::mem::take(&mut self.state().has_stored)
    }

    /// Takes the value that is held for `key`; `None` where none is, or its time may have run out.
    /// The server has never heard of it then.
    ///
    /// # Errors
    /// What the server said of one that was stored meanwhile.
    pub fn take(&self, key: &[u8]) -> Result<Option<View>, ClientError> {
        let mut state = self.state();
        if let Some(failure) = state.failure.take() {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(failure);
        }
        // Mostly the latest, or the first of some that were posted together.
        let place = match state.posts.back() {
            Some(latest) if latest.put.key == key => Some(state.posts.len() - 1),
            _ => state.posts.iter().position(|post| post.put.key == key),
        };
        let Some(post) = place.and_then(|place| state.posts.remove(place)) else {
            return Ok(None);
        };
        state.bytes -= post.put.value.memory_bytes();
        state.is_used = true;
        drop(state);
        self.count.fetch_sub(1, Ordering::Relaxed);
        let is_over = post.end.is_some_and(|end| sys::clock::monotonic() >= end);
        let value = (!is_over).then_some(post.put.value);
        Ok(value.map(|value| match value {
            PutValue::Bytes(bytes) => View::from(bytes),
            PutValue::Upload(upload) => View::uploaded(upload),
        }))
    }

    /// Gives back all, in their order, for the connection to send; and why one has failed that was
    /// stored meanwhile, which is counted as open.
    pub fn release(&self) -> (impl Iterator<Item = Put> + use<>, Option<ClientError>) {
        let mut state = self.state();
        let (posts, failure) = (std::mem::take(&mut state.posts), state.failure.take());
        state.bytes = 0;
        self.count.fetch_sub(posts.len(), Ordering::Relaxed);
        (posts.into_iter().map(|post| post.put), failure)
    }

    /// Has all stored over the connection of the session. Who holds `state` keeps the connection
    /// from looking for them elsewhere meanwhile.
    fn store(&self, state: &mut State) {
        // Without it the connection has ended, or is about to send them by itself.
        let Some(session) = self.session.upgrade() else { return };
        (state.bytes, state.has_stored) = (0, true);
        for post in state.posts.drain(..) {
            match post.put.store(&session) {
                // It counts until it is told of.
                Err(error) if state.failure.is_none() => state.failure = Some(error),
                Ok(()) | Err(_) => drop(self.count.fetch_sub(1, Ordering::Relaxed)),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LateTask for HeldPosts {
    fn look(&self) -> bool {
        let mut state = self.state();
        let Some(is_due) = state.look() else { return false };
        if is_due {
            self.store(&mut state);
        }
        true
    }
}

impl State {
    /// Returns whether the values are to be stored now; `None` where there are none.
    fn look(&mut self) -> Option<bool> {
        let looks_max = if std::mem::take(&mut self.is_used) { LOOKS_MAX } else { 1 };
        let is_due = self.posts.front()?.looks >= looks_max;
        self.posts.iter_mut().for_each(|post| post.looks += 1);
        Some(is_due)
    }
}

impl Drop for HeldPosts {
    fn drop(&mut self) {
        let state = self.state();
        let count = state.posts.len() + usize::from(state.failure.is_some());
        self.count.fetch_sub(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use sys::poll::Waker;

    use super::*;

    /// Returns what a connection holds that has no session any more.
    fn held() -> HeldPosts {
        let tasks = LateTasks::new(Waker::new().unwrap());
        HeldPosts { state: Mutex::default(), session: Weak::new(), count: Arc::default(), tasks }
    }

    fn put(key: &[u8], bytes: usize) -> Put {
        let value = PutValue::Bytes(vec![7; bytes]);
        Put { key: key.to_vec(), value, words: Vec::new() }
    }

    #[test]
    fn values_are_taken_in_any_order_and_once() {
        let held = held();
        for key in [b"a", b"b", b"c"] {
            assert!(held.hold(put(key, 3), None).is_ok());
        }
        assert!(held.hold(put(b"b", 4), None).is_err(), "it is there already");
        for key in [b"b", b"c", b"a"] {
            assert!(held.take(key).unwrap().is_some_and(|view| view.len() == 3));
            assert!(held.take(key).unwrap().is_none());
        }
        assert_eq!((held.state().bytes, held.count.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn value_is_not_taken_once_its_time_may_have_run_out() {
        for (lifetime, is_there) in [(0, false), (3600, true)] {
            let held = held();
            assert!(held.hold(put(b"a", 3), Some(Duration::from_secs(lifetime))).is_ok());
            assert_eq!(held.take(b"a").unwrap().is_some(), is_there);
            assert_eq!(held.count.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn no_more_is_held_than_fits_into_the_cache() {
        let held = held();
        assert!(held.hold(put(b"a", HELD_BYTES_MAX - 10), None).is_ok());
        assert!(held.hold(put(b"b", 11), None).is_err());
        assert!(held.hold(put(b"b", 10), None).is_ok());
        let keys: Vec<_> = held.release().0.map(|put| put.key).collect();
        assert_eq!((keys, held.count.load(Ordering::Relaxed)), (vec![b"a".into(), b"b".into()], 0));
        assert!(held.hold(put(b"a", HELD_BYTES_MAX), None).is_ok());
        drop(held);
    }

    #[test]
    fn thread_leaves_values_to_a_connection_that_goes_on() {
        // How often the thread looks at one until it has it stored.
        let looks = |goes_on: bool| {
            let held = held();
            assert!(held.hold(put(b"a", 3), None).is_ok());
            let is_stored = |_: &u32| {
                if goes_on {
                    assert!(held.hold(put(b"b", 3), None).is_ok());
                    assert!(held.take(b"b").unwrap().is_some());
                }
                held.state().look().expect("it is there")
            };
            (1..10).find(is_stored)
        };
        assert_eq!((looks(false), looks(true)), (Some(2), Some(1 + LOOKS_MAX)));
        assert!(!held().look());
    }
}
