//! A session that reads the arena of a server on the same host.
//!
//! How it attaches is written down in docs/internals/shm-attach.md.

use std::fmt;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arena::reader::{OpenError, Outcome, Reader, View};
use base::{DatabaseIndex, UnixMs};
use resp::{Value as Reply, ValueDecoder, encode_command};

use crate::memory::{Mapped, Pins};

/// The version of the attach protocol that this client speaks.
const ATTACH_VERSION: i64 = 1;
/// How often a read maps new segments before it asks over the socket.
const REFRESHES_MAX: u32 = 4;
/// How many lists of segments one refresh asks for: 250 new segments come with each.
const LISTS_MAX: u32 = 1024;
/// What one receive takes from the socket.
const RECEIVE_BYTES: usize = 16 * 1024;

/// Why a session cannot attach or read.
#[derive(Debug)]
pub enum AttachError {
    /// The socket or a mapping failed.
    Io(io::Error),
    /// The server refused, in its words.
    Refused(String),
    /// The server answered something else than the protocol says.
    Unexpected(String),
    /// The memory is not an arena that this client can read.
    Arena(OpenError),
    /// The key holds another type than a string.
    WrongType,
}

impl fmt::Display for AttachError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttachError::Io(error) => error.fmt(formatter),
            AttachError::Refused(text) => formatter.write_str(text),
            AttachError::Unexpected(text) => write!(formatter, "unexpected reply: {text}"),
            AttachError::Arena(error) => error.fmt(formatter),
            AttachError::WrongType => {
                formatter.write_str("the key holds another type than a string")
            }
        }
    }
}

impl std::error::Error for AttachError {}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> AttachError {
        AttachError::Io(error)
    }
}

/// A value: where it lies in the arena, or a copy of a small one.
#[derive(Debug)]
pub enum Value<'a> {
    /// Pinned: it stays as it is until this is dropped.
    Pinned(View<'a>),
    /// In the caller's buffer.
    Copied(&'a [u8]),
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Value::Pinned(view) => view,
            Value::Copied(bytes) => bytes,
        }
    }
}

/// An attached session. Any number of threads may read through it at once; only what the memory
/// cannot answer goes over the socket, one request at a time.
///
/// The pins of a session end with its connection: when an operation fails with
/// [`AttachError::Io`], views that are still held must not be looked at any more.
pub struct Attached {
    reader: Reader<Mapped>,
    link: Mutex<Link>,
    database: DatabaseIndex,
}

impl Attached {
    /// Attaches to the server behind the unix socket at `path`, to read database 0. `password` is
    /// sent where the server asks for one.
    ///
    /// # Errors
    /// When the server does not answer, refuses (another user, `shm-reads no`), or has an arena of
    /// another layout.
    pub fn connect(path: &Path, password: Option<&[u8]>) -> Result<Attached, AttachError> {
        let mut link = Link::new(UnixStream::connect(path)?);
        if let Some(password) = password {
            link.ask(&[b"AUTH", password])?;
        }
        let reply = link.ask(&[b"SHM", b"ATTACH"])?;
        let [version, span, segment_bytes, pin_bytes] = numbers(&reply)?[..] else {
            return Err(unexpected(&reply));
        };
        let is_sound = version == ATTACH_VERSION
            && segment_bytes >= 4096
            && (segment_bytes as u64).is_power_of_two()
            && span % segment_bytes == 0
            && u32::try_from(span / segment_bytes).is_ok_and(|count| count > 0);
        if !is_sound {
            return Err(unexpected(&reply));
        }
        let descriptor = link.descriptors.pop().ok_or_else(|| unexpected(&reply))?;
        let pins = Pins::open(descriptor, pin_bytes as u64)?;
        let mapped = Mapped::reserve(segment_bytes as u64, (span / segment_bytes) as u32)?;
        link.refresh(&mapped)?;
        let reader = Reader::open(mapped, Some(Arc::new(pins))).map_err(AttachError::Arena)?;
        Ok(Attached { reader, link: Mutex::new(link), database: DatabaseIndex(0) })
    }

    /// Copies the value of `key` to `value`, replacing what is in it; returns whether there is one.
    /// Nothing is allocated once `value` is large enough, and no system call is made unless the
    /// entry changes all the time.
    ///
    /// # Errors
    /// When the key holds another type, or the socket was needed and fails.
    #[inline]
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, AttachError> {
        match self.reader.get(self.database, key, sys::clock::realtime, value) {
            Outcome::Found(()) => Ok(true),
            Outcome::Absent => Ok(false),
            other => self.get_slowly(other, key, value),
        }
    }

    /// Returns the value of `key`: a large one where it lies, a small one copied to `buffer`.
    ///
    /// # Errors
    /// As [`Attached::get`].
    pub fn view<'a>(
        &'a self,
        key: &[u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<Value<'a>>, AttachError> {
        for _ in 0..REFRESHES_MAX {
            match self.reader.pin(self.database, key, sys::clock::realtime) {
                Outcome::Found(Some(view)) => return Ok(Some(Value::Pinned(view))),
                Outcome::Absent => return Ok(None),
                Outcome::WrongType => return Err(AttachError::WrongType),
                Outcome::NeedSegments => self.refresh()?,
                Outcome::Found(None) | Outcome::Busy => break,
            }
        }
        Ok(self.get(key, buffer)?.then_some(Value::Copied(buffer)))
    }

    /// Returns whether `key` exists.
    ///
    /// # Errors
    /// When the socket was needed and fails.
    pub fn exists(&self, key: &[u8]) -> Result<bool, AttachError> {
        for _ in 0..REFRESHES_MAX {
            match self.reader.exists(self.database, key, sys::clock::realtime) {
                Outcome::Found(()) | Outcome::WrongType => return Ok(true),
                Outcome::Absent => return Ok(false),
                Outcome::NeedSegments => self.refresh()?,
                Outcome::Busy => break,
            }
        }
        Ok(self.integer(&[b"EXISTS", key])? != 0)
    }

    /// Returns the length of the string at `key` in bytes; 0 where there is none.
    ///
    /// # Errors
    /// As [`Attached::get`].
    pub fn strlen(&self, key: &[u8]) -> Result<u64, AttachError> {
        for _ in 0..REFRESHES_MAX {
            match self.reader.strlen(self.database, key, sys::clock::realtime) {
                Outcome::Found(length) => return Ok(length),
                Outcome::Absent => return Ok(0),
                Outcome::WrongType => return Err(AttachError::WrongType),
                Outcome::NeedSegments => self.refresh()?,
                Outcome::Busy => break,
            }
        }
        Ok(self.integer(&[b"STRLEN", key])? as u64)
    }

    /// Returns when `key` expires, as milliseconds since the Unix epoch; `None` where it does not
    /// exist, `Some(None)` where it has no time to live.
    ///
    /// # Errors
    /// When the socket was needed and fails.
    pub fn expiry(&self, key: &[u8]) -> Result<Option<Option<UnixMs>>, AttachError> {
        for _ in 0..REFRESHES_MAX {
            match self.reader.expiry(self.database, key, sys::clock::realtime) {
                Outcome::Found(expiry) => return Ok(Some(expiry)),
                Outcome::Absent => return Ok(None),
                Outcome::WrongType => return Err(AttachError::WrongType),
                Outcome::NeedSegments => self.refresh()?,
                Outcome::Busy => break,
            }
        }
        Ok(match self.integer(&[b"PEXPIRETIME", key])? {
            -2 => None,
            -1 => Some(None),
            at => Some(Some(UnixMs(at))),
        })
    }

    #[cold]
    fn get_slowly(
        &self,
        first: Outcome<()>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, AttachError> {
        let mut outcome = first;
        for _ in 0..REFRESHES_MAX {
            match outcome {
                Outcome::Found(()) => return Ok(true),
                Outcome::Absent => return Ok(false),
                Outcome::WrongType => return Err(AttachError::WrongType),
                Outcome::NeedSegments => self.refresh()?,
                Outcome::Busy => break,
            }
            outcome = self.reader.get(self.database, key, sys::clock::realtime, value);
        }
        match self.link().ask(&[b"GET", key])? {
            Reply::Bulk(bytes) => {
                value.clear();
                value.extend_from_slice(&bytes);
                Ok(true)
            }
            Reply::Null => Ok(false),
            other => Err(unexpected(&other)),
        }
    }

    fn integer(&self, request: &[&[u8]]) -> Result<i64, AttachError> {
        match self.link().ask(request)? {
            Reply::Integer(number) => Ok(number),
            other => Err(unexpected(&other)),
        }
    }

    fn refresh(&self) -> Result<(), AttachError> {
        self.link().refresh(self.reader.segments())
    }

    fn link(&self) -> std::sync::MutexGuard<'_, Link> {
        self.link.lock().expect("no holder of the connection panics")
    }
}

/// The connection: requests one at a time, and the descriptors that came with replies.
struct Link {
    stream: UnixStream,
    decoder: ValueDecoder,
    received: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    /// The highest serial number of a segment that was mapped.
    known: i64,
}

impl Link {
    fn new(stream: UnixStream) -> Link {
        Link {
            stream,
            decoder: ValueDecoder::default(),
            received: Vec::new(),
            descriptors: Vec::new(),
            known: 0,
        }
    }

    /// Sends one request and returns its reply; descriptors are kept in `descriptors`.
    fn ask(&mut self, request: &[&[u8]]) -> Result<Reply, AttachError> {
        let mut out = Vec::new();
        encode_command(request, &mut out);
        self.stream.write_all(&out)?;
        self.descriptors.clear();
        loop {
            let decoded = self.decoder.decode(&self.received);
            let (consumed, reply) =
                decoded.map_err(|error| AttachError::Unexpected(format!("{error:?}")))?;
            self.received.drain(..consumed);
            match reply {
                Some(Reply::Error(text)) => {
                    return Err(AttachError::Refused(String::from_utf8_lossy(&text).into_owned()));
                }
                Some(reply) => return Ok(reply),
                None => self.receive()?,
            }
        }
    }

    fn receive(&mut self) -> Result<(), AttachError> {
        let mut bytes = [0; RECEIVE_BYTES];
        let count = sys::descriptors::receive(&self.stream, &mut bytes, &mut self.descriptors)?;
        if count == 0 {
            return Err(AttachError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        self.received.extend_from_slice(&bytes[..count]);
        Ok(())
    }

    /// Brings the mapping up to date with the server's segments.
    fn refresh(&mut self, mapped: &Mapped) -> Result<(), AttachError> {
        for _ in 0..LISTS_MAX {
            let known = self.known.to_string();
            let reply = self.ask(&[b"SHM", b"SEGMENTS", known.as_bytes()])?;
            let words = numbers(&reply)?;
            let [epoch, list @ ..] = &words[..] else { return Err(unexpected(&reply)) };
            if list.len() % 2 != 0 {
                return Err(unexpected(&reply));
            }
            if self.map(list, mapped)? {
                mapped.set_epoch(*epoch as u64);
                return Ok(());
            }
        }
        Err(AttachError::Unexpected("segments without end".to_owned()))
    }

    /// Maps what `list` (index and serial of each segment) brought descriptors of, and unmaps what
    /// is not in it; returns whether all of it is mapped now.
    fn map(&mut self, list: &[i64], mapped: &Mapped) -> Result<bool, AttachError> {
        let mut segments = mapped.segments();
        let count = mapped.segment_count();
        let mut is_live = vec![false; count];
        let mut descriptors = std::mem::take(&mut self.descriptors).into_iter();
        let mut is_complete = true;
        let before = self.known;
        for pair in list.chunks_exact(2) {
            let index = usize::try_from(pair[0]).ok().filter(|&index| index < count);
            let index = index.ok_or_else(|| AttachError::Unexpected(format!("{list:?}")))?;
            is_live[index] = true;
            if pair[1] <= before {
                continue;
            }
            let Some(descriptor) = descriptors.next() else {
                is_complete = false;
                continue;
            };
            if segments.is_mapped(index as u32) {
                segments.unmap(index as u32)?;
            }
            segments.map(index as u32, &descriptor)?;
            self.known = self.known.max(pair[1]);
        }
        for (index, _) in is_live.iter().enumerate().filter(|(_, is_live)| !**is_live) {
            if segments.is_mapped(index as u32) {
                segments.unmap(index as u32)?;
            }
        }
        Ok(is_complete)
    }
}

fn numbers(reply: &Reply) -> Result<Vec<i64>, AttachError> {
    let Reply::Array(items) = reply else { return Err(unexpected(reply)) };
    let number = |item: &Reply| match item {
        Reply::Integer(number) => Ok(*number),
        _ => Err(unexpected(reply)),
    };
    items.iter().map(number).collect()
}

fn unexpected(reply: &Reply) -> AttachError {
    AttachError::Unexpected(format!("{reply:?}"))
}
