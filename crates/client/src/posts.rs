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

use resp::Value as Reply;

use crate::answers::{accepted, is_set};
use crate::error::ClientError;
use crate::options::set_request;
use crate::session_uploads::Mode;
use crate::upload_buffers::{Storing, Upload};

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
struct Post {
    content: Content,
    reply_count: usize,
    replies: Vec<Reply>,
}

/// What was posted.
pub enum Content {
    /// A value that was sent.
    Value {
        key: Vec<u8>,
    },
    /// A value in upload memory.
    Upload {
        key: Vec<u8>,
        storing: Storing,
    },
    Deletion {
        key: Vec<u8>,
    },
}

/// A value that is to be posted, with words of SET.
pub struct Put {
    pub key: Vec<u8>,
    pub value: PutValue,
    pub words: Vec<Vec<u8>>,
}

/// The value, and where it is.
pub enum PutValue {
    Bytes(Vec<u8>),
    Upload(Upload),
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

    /// Returns the latest of those that are not answered yet that changes `key`.
    pub fn change(&self, key: &[u8]) -> Option<&Content> {
        self.open.iter().rev().map(|post| &post.content).find(|content| content.key() == key)
    }

    /// Adds one that was sent, whose requests have so many replies.
    pub fn add(&mut self, content: Content, reply_count: usize) {
        if let Some((bytes, count @ 1..)) = content.asked() {
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
        if let Some((bytes, count @ 1..)) = post.content.asked() {
            let left = self.asked[&bytes] - count;
            match left {
                0 => self.asked.remove(&bytes),
                _ => self.asked.insert(bytes, left),
            };
        }
        match post.content.finish(post.replies) {
            Err(error) => self.fail(error),
            Ok(()) => drop(self.count.fetch_sub(1, Ordering::Relaxed)),
        }
    }

    /// Returns whether an answer may bring a buffer of one of the sizes `bytes`.
    pub fn may_bring_buffer(&self, bytes: RangeInclusive<usize>) -> bool {
        self.asked.range(bytes).next().is_some()
    }

    /// Notes that one has failed, which is counted as open.
    pub fn fail(&mut self, error: ClientError) {
        // The first counts until it is told of, as whoever has nothing open asks for no failure.
        if self.failure.is_none() {
            self.failure = Some(error);
        } else {
            self.count.fetch_sub(1, Ordering::Relaxed);
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
            Content::Value { key } | Content::Upload { key, .. } | Content::Deletion { key } => key,
        }
    }

    /// Returns the size of the buffers that are asked for along with it, and how many those are.
    fn asked(&self) -> Option<(usize, usize)> {
        match self {
            Content::Upload { storing, .. } => Some(storing.along().asked()),
            Content::Value { .. } | Content::Deletion { .. } => None,
        }
    }

    /// Fails where the server has refused a value.
    fn finish(self, mut replies: Vec<Reply>) -> Result<(), ClientError> {
        let stored = match self {
            // Whatever it held and whoever was faster: the key is not there any more.
            Content::Deletion { .. } => return accepted(replies.remove(0)).map(drop),
            Content::Value { .. } => accepted(replies.remove(0))?,
            Content::Upload { mut storing, .. } => storing.finish(replies)?,
        };
        is_set(&stored).map(drop)
    }
}

impl Put {
    /// Returns how many bytes its requests have at most, but for those that give buffers back.
    pub fn request_bytes(&self) -> usize {
        /// The other words and all the lengths, and a request for the next buffer.
        const FRAME_BYTES: usize = 256;
        let value_bytes = match &self.value {
            PutValue::Bytes(bytes) => bytes.len(),
            PutValue::Upload(_) => 0,
        };
        let words_bytes: usize = self.words.iter().map(Vec::len).sum();
        FRAME_BYTES + self.key.len() + value_bytes + words_bytes
    }

    /// Sends it by `send`, which is given the requests to be sent together; returns what was
    /// posted, and what `send` has returned.
    ///
    /// # Errors
    /// Those of `send`.
    pub fn send<T>(
        self,
        send: impl FnOnce(&[&[&[u8]]]) -> Result<T, ClientError>,
    ) -> Result<(Content, T), ClientError> {
        let Put { key, value, words } = self;
        match value {
            PutValue::Bytes(bytes) => {
                let sent = send(&[&set_request(&key, &bytes, &words)])?;
                Ok((Content::Value { key }, sent))
            }
            PutValue::Upload(upload) => {
                let storing = upload.store(Mode::Adopt);
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let requests = storing.requests(&key, &words);
                let requests: Vec<&[&[u8]]> = requests.iter().map(Vec::as_slice).collect();
                let sent = send(&requests)?;
                Ok((Content::Upload { key, storing }, sent))
            }
        }
    }
}

impl PutValue {
    /// Returns how much memory it takes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            PutValue::Bytes(bytes) => bytes.capacity(),
            PutValue::Upload(upload) => upload.buffer_bytes(),
        }
    }
}

impl Drop for Posts {
    fn drop(&mut self) {
        let count = self.open.len() + usize::from(self.failure.is_some());
        self.count.fetch_sub(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: &[u8]) -> Content {
        Content::Value { key: key.to_vec() }
    }

    #[test]
    fn posts_are_answered_in_their_order_and_the_first_refusal_is_told_once() {
        let count = Arc::default();
        let mut posts = Posts::new(&count);
        posts.add(value(b"a"), 1);
        posts.add(value(b"b"), 1);
        posts.add(Content::Deletion { key: b"a".to_vec() }, 1);
        assert_eq!((posts.len(), count.load(Ordering::Relaxed)), (3, 3));
        posts.answer(Reply::Error(b"OOM no memory".to_vec()));
        posts.answer(Reply::Error(b"ERR other".to_vec()));
        assert!(matches!(posts.change(b"a"), Some(Content::Deletion { .. })));
        assert!(posts.change(b"b").is_none(), "it was answered");
        posts.answer(Reply::Integer(0));
        assert_eq!((posts.len(), count.load(Ordering::Relaxed)), (0, 1), "one is not told of");
        let told = posts.check().expect_err("the first was refused");
        assert_eq!(count.load(Ordering::Relaxed), 0);
        assert_eq!(told.code(), Some("OOM"));
        assert!(posts.check().is_ok() && posts.change(b"a").is_none());
        posts.add(value(b"a"), 1);
        drop(posts);
        assert_eq!(count.load(Ordering::Relaxed), 0, "who is gone has nothing open");
    }
}
