//! Requests of a connection whose replies nobody waits for: values for one consumer each, and their
//! deletion.
//!
//! The server executes them in their order, before whatever the connection is asked next. A thread
//! that has posted something and reads settles first: it waits for the replies, and so sees what
//! it has done. Other threads have other connections, and see it once the server has executed it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use resp::Value as Reply;

use crate::answers::{accepted, is_set};
use crate::error::ClientError;
use crate::session_uploads::BufferRequests;
use crate::upload_buffers::{Asked, Storing};
use crate::value_view::View;

/// The posts of one connection.
pub struct Posts {
    /// Those that are not answered yet, in their order.
    open: VecDeque<Post>,
    /// How many buffers they ask for, by the size of those.
    asked: BTreeMap<usize, usize>,
    /// How many posts all connections of the client have open, or have failed and not told of.
    count: Arc<AtomicUsize>,
    /// Why the first has failed of those that did and were not told of yet.
    failure: Option<ClientError>,
}

/// Requests that were sent together.
pub struct Post {
    pub content: Content,
    pub reply_count: usize,
    pub replies: Vec<Reply>,
}

/// What the posts of a connection say of a key.
pub enum Posted {
    /// What it holds.
    Value(View),
    /// That only the server knows what it holds, as this connection has deleted it, or its time may
    /// have run out.
    Unknown,
    Nothing,
}

/// What was posted.
pub enum Content {
    /// A value that was sent; kept as long as the same connection may take it before it is stored.
    /// It may have run out from `end` on, by the monotonic clock.
    Value { key: Vec<u8>, value: Option<Vec<u8>>, end: Option<Duration> },
    /// A value in upload memory.
    Upload { key: Vec<u8>, storing: Storing, end: Option<Duration> },
    /// The deletion of a key, and the buffers that are asked for along with it.
    Deletion { key: Vec<u8>, asked: Option<Asked> },
}

impl Posts {
    /// Returns those of a new connection: none. `count` is the client's.
    pub fn new(count: &Arc<AtomicUsize>) -> Posts {
        let (open, asked) = (VecDeque::new(), BTreeMap::new());
        Posts { open, asked, count: Arc::clone(count), failure: None }
    }

    /// Returns how many are not answered yet.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Adds one that was sent.
    pub fn add(&mut self, content: Content, reply_count: usize) {
        if let Some((bytes, count @ 1..)) = content.along().map(BufferRequests::asked) {
            *self.asked.entry(bytes).or_default() += count;
        }
        self.open.push_back(Post { content, reply_count, replies: Vec::new() });
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the next reply to what is open.
    pub fn answer(&mut self, reply: Reply) {
        let post = self.open.front_mut().expect("who posts adds what it posts");
        post.replies.push(reply);
        if post.replies.len() < post.reply_count {
            return;
        }
        let post = self.open.pop_front().expect("it was looked at");
        if let Some((bytes, count @ 1..)) = post.content.along().map(BufferRequests::asked) {
            let left = self.asked(bytes) - count;
            match left {
                0 => self.asked.remove(&bytes),
                _ => self.asked.insert(bytes, left),
            };
        }
        match post.finished() {
            // It counts until it is told of, as whoever has nothing open asks for no failure.
            Err(error) if self.failure.is_none() => self.failure = Some(error),
            Ok(()) | Err(_) => drop(self.count.fetch_sub(1, Ordering::Relaxed)),
        }
    }

    /// Returns how many buffers of `bytes` the answers may bring.
    pub fn asked(&self, bytes: usize) -> usize {
        self.asked.get(&bytes).copied().unwrap_or(0)
    }

    /// Returns whether an answer may bring a buffer of one of the sizes `bytes`.
    pub fn may_bring_buffer(&self, bytes: RangeInclusive<usize>) -> bool {
        self.asked.range(bytes).next().is_some()
    }

    /// Takes the value of `key` as the latest post of it that is not answered yet says.
    pub fn take(&mut self, key: &[u8]) -> Posted {
        let latest = self.open.iter_mut().rev().find(|post| post.content.key() == key);
        match latest.map(|post| &mut post.content) {
            Some(
                Content::Value { end: Some(end), .. } | Content::Upload { end: Some(end), .. },
            ) if sys::clock::monotonic() >= *end => Posted::Unknown,
            Some(Content::Value { value, .. }) => {
                value.take().map_or(Posted::Unknown, |value| Posted::Value(View::from(value)))
            }
            Some(Content::Upload { storing, .. }) => Posted::Value(storing.view()),
            Some(Content::Deletion { .. }) => Posted::Unknown,
            None => Posted::Nothing,
        }
    }

    /// Fails where one has failed since the last call.
    ///
    /// # Errors
    /// What the server said of it.
    pub fn check(&mut self) -> Result<(), ClientError> {
        let Some(failure) = self.failure.take() else { return Ok(()) };
        self.count.fetch_sub(1, Ordering::Relaxed);
        Err(failure)
    }
}

impl Content {
    fn key(&self) -> &[u8] {
        match self {
            Content::Value { key, .. }
            | Content::Upload { key, .. }
            | Content::Deletion { key, .. } => key,
        }
    }

    /// Returns the buffers that are asked for along with it.
    fn along(&self) -> Option<&BufferRequests> {
        match self {
            Content::Upload { storing, .. } => Some(storing.along()),
            Content::Deletion { asked, .. } => asked.as_ref().map(Asked::along),
            Content::Value { .. } => None,
        }
    }
}

impl Drop for Posts {
    fn drop(&mut self) {
        let count = self.open.len() + usize::from(self.failure.is_some());
        self.count.fetch_sub(count, Ordering::Relaxed);
    }
}

impl Post {
    /// Fails where the server has refused a value.
    fn finished(self) -> Result<(), ClientError> {
        let mut replies = self.replies;
        let stored = match self.content {
            Content::Value { .. } => accepted(replies.remove(0))?,
            Content::Upload { mut storing, .. } => storing.finish(replies)?,
            // Whatever it held and whoever was faster: the key is not there any more.
            Content::Deletion { asked, .. } => {
                let mut replies = replies.into_iter();
                let deleted = replies.next().expect("each request was answered");
                if let Some(asked) = asked {
                    asked.finish(replies);
                }
                return accepted(deleted).map(drop);
            }
        };
        is_set(&stored).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: &[u8]) -> Content {
        Content::Value { key: key.to_vec(), value: Some(b"value".to_vec()), end: None }
    }

    #[test]
    fn posts_are_answered_in_their_order_and_the_first_refusal_is_told_once() {
        let count = Arc::default();
        let mut posts = Posts::new(&count);
        posts.add(value(b"a"), 1);
        posts.add(value(b"b"), 1);
        posts.add(Content::Deletion { key: b"a".to_vec(), asked: None }, 1);
        assert_eq!((posts.len(), count.load(Ordering::Relaxed)), (3, 3));
        posts.answer(Reply::Error(b"OOM no memory".to_vec()));
        posts.answer(Reply::Error(b"ERR other".to_vec()));
        assert!(matches!(posts.take(b"a"), Posted::Unknown), "it was deleted");
        assert!(matches!(posts.take(b"b"), Posted::Nothing), "it was answered");
        posts.answer(Reply::Integer(0));
        assert_eq!((posts.len(), count.load(Ordering::Relaxed)), (0, 1), "one is not told of");
        let told = posts.check().expect_err("the first was refused");
        assert_eq!(count.load(Ordering::Relaxed), 0);
        assert_eq!(told.code(), Some("OOM"));
        assert!(posts.check().is_ok() && matches!(posts.take(b"a"), Posted::Nothing));
    }

    #[test]
    fn value_that_is_open_is_taken_once() {
        let count = Arc::default();
        let mut posts = Posts::new(&count);
        posts.add(value(b"a"), 1);
        assert!(matches!(posts.take(b"b"), Posted::Nothing));
        assert!(matches!(posts.take(b"a"), Posted::Value(value) if *value == *b"value"));
        assert!(matches!(posts.take(b"a"), Posted::Unknown));
        drop(posts);
        assert_eq!(count.load(Ordering::Relaxed), 0, "who is gone has nothing open");
    }

    #[test]
    fn value_is_not_taken_once_its_time_may_have_run_out() {
        let (now, later) = (sys::clock::monotonic(), Duration::from_secs(3600));
        for (end, is_there) in [(Some(now), false), (Some(now + later), true), (None, true)] {
            let mut posts = Posts::new(&Arc::default());
            let value = Some(b"value".to_vec());
            posts.add(Content::Value { key: b"a".to_vec(), value, end }, 1);
            assert_eq!(matches!(posts.take(b"a"), Posted::Value(_)), is_there, "{end:?}");
        }
    }
}
