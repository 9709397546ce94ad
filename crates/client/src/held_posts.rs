//! Values that a connection has posted and most likely takes by itself. The server is not told of
//! them for a moment: a value that is taken meanwhile costs it nothing, and the memory that it was
//! written to, which is in the cache, is there for the next.
//!
//! The connection sends them before anything else, but for requests for upload memory. Where it
//! sends nothing they are for somebody else, and the thread of the session has it send them after a
//! millisecond or two (`thread_connections.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::posts::{Put, PutValue};
use crate::value_view::View;

/// So many bytes are held at most: what is written in turn to more is not in the cache any more.
pub const HELD_BYTES_MAX: usize = 8 << 20;
/// So many bytes of requests the thread of the session has sent at once: they find room in an empty
/// lane, of 64 KiB, along with what gives back some hundred buffers. What takes more is not held.
pub const SENT_AT_ONCE_MAX: usize = 32 << 10;
/// So many times the thread of the session leaves a value to a connection that goes on posting and
/// taking others. One that does neither from one time to the next has posted it for somebody else.
const LOOKS_MAX: u32 = 4;

/// What one connection holds: not more values than `OwnTakes` remembers.
pub struct HeldPosts {
    /// In their order.
    posts: VecDeque<HeldPost>,
    bytes: usize,
    /// Whether the connection has posted or taken something since the latest look.
    is_used: bool,
    /// Whether there are some, for who does not wait for the connection.
    are_there: Arc<AtomicBool>,
    /// The client's count of posts whose replies its connections do not know.
    count: Arc<AtomicUsize>,
}

struct HeldPost {
    put: Put,
    /// When it may have run out, by the monotonic clock.
    end: Option<Duration>,
    /// How often the thread has seen it.
    looks: u32,
}

impl HeldPosts {
    /// Returns those of a new connection: none. `count` is the client's.
    pub fn new(count: &Arc<AtomicUsize>) -> HeldPosts {
        HeldPosts {
            posts: VecDeque::new(),
            bytes: 0,
            is_used: false,
            are_there: Arc::default(),
            count: Arc::clone(count),
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.posts.is_empty()
    }

    /// Returns what tells whether there are some.
    pub fn are_there(&self) -> &Arc<AtomicBool> {
        &self.are_there
    }

    /// Holds `put`, which lives for `lifetime` if not without end; returns it where that is not to
    /// be.
    pub fn hold(&mut self, put: Put, lifetime: Option<Duration>) -> Result<(), Put> {
        let bytes = self.bytes.saturating_add(put.value.memory_bytes());
        let is_there = self.posts.iter().any(|post| post.put.key == put.key);
        // What becomes of it the server alone knows: it refuses it, or keeps a time to live.
        let has_no_lifetime = lifetime == Some(Duration::ZERO);
        let may_be_held = match &put.value {
            PutValue::Upload(upload) => upload.may_be_held(),
            PutValue::Bytes(_) => true,
        };
        let is_long = put.request_bytes() > SENT_AT_ONCE_MAX;
        if bytes > HELD_BYTES_MAX || is_there || has_no_lifetime || is_long || !may_be_held {
            return Err(put);
        }
        let end = lifetime.map(|lifetime| sys::clock::monotonic().saturating_add(lifetime));
        self.bytes = bytes;
        self.is_used = true;
        self.posts.push_back(HeldPost { put, end, looks: 0 });
        self.count.fetch_add(1, Ordering::Relaxed);
        // SYNC POINT: watched or seen what is there. Pairs with the load by the thread.
        self.are_there.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Takes what is held for `key`, if something is: its value, or `None` where its time may have
    /// run out. The server has never heard of it then.
    pub fn take(&mut self, key: &[u8]) -> Option<Option<View>> {
        // Mostly the latest, or the first of some that were posted together.
        let place = match self.posts.back()? {
            latest if latest.put.key == key => self.posts.len() - 1,
            _ => self.posts.iter().position(|post| post.put.key == key)?,
        };
        let post = self.posts.remove(place)?;
        self.bytes -= post.put.value.memory_bytes();
        self.is_used = true;
        self.are_there.store(!self.is_empty(), Ordering::Relaxed);
        self.count.fetch_sub(1, Ordering::Relaxed);
        let is_over = post.end.is_some_and(|end| sys::clock::monotonic() >= end);
        Some((!is_over).then(|| match post.put.value {
            PutValue::Bytes(bytes) => View::from(bytes),
            PutValue::Upload(upload) => View::uploaded(upload),
        }))
    }

    /// Gives back the first, in their order, for the connection to send: those whose requests have
    /// `request_bytes_max` together at most. They count as open until [`HeldPosts::forget`]: where
    /// the thread of the session sends them, that of the connection looks at the count without
    /// waiting for it.
    pub fn release(
        &mut self,
        request_bytes_max: usize,
    ) -> impl ExactSizeIterator<Item = Put> + use<> {
        let mut request_bytes = 0;
        let fitting = self.posts.iter().take_while(|post| {
            request_bytes += post.put.request_bytes();
            request_bytes <= request_bytes_max
        });
        let rest = self.posts.split_off(fitting.count());
        let posts = std::mem::replace(&mut self.posts, rest);
        self.bytes -= posts.iter().map(|post| post.put.value.memory_bytes()).sum::<usize>();
        self.are_there.store(!self.is_empty(), Ordering::Relaxed);
        posts.into_iter().map(|post| post.put)
    }

    /// Counts `count` less, which were released and are sent by now.
    pub fn forget(&self, count: usize) {
        self.count.fetch_sub(count, Ordering::Relaxed);
    }

    /// Looks at them for the thread of the session; returns whether they are to be sent now, and
    /// `None` where there are none.
    pub fn look(&mut self) -> Option<bool> {
        let looks_max = if std::mem::take(&mut self.is_used) { LOOKS_MAX } else { 1 };
        let is_due = self.posts.front()?.looks >= looks_max;
        self.posts.iter_mut().for_each(|post| post.looks += 1);
        Some(is_due)
    }
}

impl Drop for HeldPosts {
    fn drop(&mut self) {
        self.count.fetch_sub(self.posts.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> HeldPosts {
        HeldPosts::new(&Arc::default())
    }

    fn put(key: &[u8], bytes: usize) -> Put {
        let value = PutValue::Bytes(vec![7; bytes]);
        Put { key: key.to_vec(), value, words: Vec::new() }
    }

    /// Returns how many there are, by each of the counts.
    fn counts(held: &HeldPosts) -> (usize, usize, bool) {
        let are_there = held.are_there.load(Ordering::Relaxed);
        (held.bytes, held.count.load(Ordering::Relaxed), are_there)
    }

    #[test]
    fn values_are_taken_in_any_order_and_once() {
        let mut held = held();
        for key in [b"a", b"b", b"c"] {
            assert!(held.hold(put(key, 3), None).is_ok());
        }
        assert!(held.hold(put(b"b", 4), None).is_err(), "it is there already");
        assert_eq!(counts(&held), (9, 3, true));
        for key in [b"b", b"c", b"a"] {
            assert!(held.take(key).flatten().is_some_and(|view| view.len() == 3));
            assert!(held.take(key).is_none());
        }
        assert_eq!(counts(&held), (0, 0, false));
    }

    #[test]
    fn value_is_not_taken_once_its_time_may_have_run_out() {
        for (lifetime, is_there) in
            [(Duration::from_nanos(1), false), (Duration::from_secs(3600), true)]
        {
            let mut held = held();
            assert!(held.hold(put(b"a", 3), Some(lifetime)).is_ok());
            assert_eq!(held.take(b"a").expect("it is held").is_some(), is_there);
            assert_eq!(counts(&held), (0, 0, false));
        }
        assert!(held().hold(put(b"a", 3), Some(Duration::ZERO)).is_err());
    }

    #[test]
    fn no_more_is_held_than_fits_into_the_cache() {
        const LENGTH: usize = 16 << 10;
        const COUNT: usize = HELD_BYTES_MAX / LENGTH;
        let mut held = held();
        for number in 0..COUNT {
            assert!(held.hold(put(&number.to_le_bytes(), LENGTH), None).is_ok());
        }
        assert!(held.hold(put(b"one more", 1), None).is_err());
        assert_eq!(counts(&held), (HELD_BYTES_MAX, COUNT, true));
        // The third has no room for its other words.
        let keys: Vec<_> = held.release(3 * LENGTH).map(|put| put.key).collect();
        assert_eq!(keys, [0, 1].map(|number: usize| number.to_le_bytes()));
        assert_eq!(counts(&held), (HELD_BYTES_MAX - 2 * LENGTH, COUNT, true));
        held.forget(2);
        assert!(held.hold(put(b"one more", 1), None).is_ok());
        assert_eq!(held.release(usize::MAX).len(), COUNT - 1);
        held.forget(COUNT - 1);
        assert_eq!(counts(&held), (0, 0, false));
        assert!(held.hold(put(b"long", SENT_AT_ONCE_MAX), None).is_err());
        assert!(held.hold(put(b"last", LENGTH), None).is_ok());
        let count = Arc::clone(&held.count);
        drop(held);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn thread_leaves_values_to_a_connection_that_goes_on() {
        // How often the thread looks at one until it is to be sent.
        let looks = |goes_on: bool| {
            let mut held = held();
            assert!(held.hold(put(b"a", 3), None).is_ok());
            let is_due = |_: &u32| {
                if goes_on {
                    assert!(held.hold(put(b"b", 3), None).is_ok());
                    assert!(held.take(b"b").is_some());
                }
                held.look().expect("it is there")
            };
            (1..10).find(is_due)
        };
        assert_eq!((looks(false), looks(true)), (Some(2), Some(1 + LOOKS_MAX)));
        assert!(held().look().is_none());
    }
}
