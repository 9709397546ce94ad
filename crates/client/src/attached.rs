//! A session that reads the arena of a server on the same host.
//!
//! How it attaches is written down in docs/internals/shm-attach.md.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arena::reader::{OpenError, Outcome, Reader, View};
use base::{DatabaseIndex, UnixMs};
use resp::{Value as Reply, ValueDecoder, encode_command};
use ring::{Mapped, SharedPins};
use sys::memory::LiveSegment;

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
        let number = |name: &str| match field(&reply, name) {
            Some(Reply::Integer(number)) => Ok(*number),
            _ => Err(unexpected(&reply)),
        };
        let (version, pin_bytes) = (number("version")?, number("pin-bytes")?);
        let (span, segment_bytes) = (number("span-bytes")?, number("segment-bytes")?);
        let is_sound = version == ATTACH_VERSION
            && segment_bytes >= 4096
            && (segment_bytes as u64).is_power_of_two()
            && span % segment_bytes == 0
            && u32::try_from(span / segment_bytes).is_ok_and(|count| count > 0);
        if !is_sound {
            return Err(unexpected(&reply));
        }
        let descriptor = link.descriptors.pop().ok_or_else(|| unexpected(&reply))?;
        let pins = SharedPins::open(descriptor, pin_bytes as u64)?;
        let mapped = Mapped::reserve(segment_bytes as u64, (span / segment_bytes) as u32)?;
        link.refresh(&mapped)?;
        let reader = Reader::open(mapped, Some(Arc::new(pins))).map_err(AttachError::Arena)?;
        Ok(Attached { reader, link: Mutex::new(link), database: DatabaseIndex(0) })
    }

    /// Reads `database` from now on.
    ///
    /// # Errors
    /// When the server has no such database, or does not answer.
    pub fn select(&mut self, database: DatabaseIndex) -> Result<(), AttachError> {
        let number = database.0.to_string();
        self.link().ask(&[b"SELECT", number.as_bytes()])?;
        self.database = database;
        Ok(())
    }

    /// Looks whether the server is still there. A read makes no system call, so that one whose
    /// answer is in the memory does not notice when the server was killed: a process that lives
    /// long calls this now and then, once a second say. A server that ends in order turns such
    /// reads away.
    ///
    /// # Errors
    /// When the connection has ended: what is read from then on is what the server left behind.
    pub fn check(&self) -> Result<(), AttachError> {
        let mut link = self.link();
        if link.is_broken || sys::descriptors::peer_has_closed(&link.stream)? {
            link.is_broken = true;
            return Err(AttachError::Io(ErrorKind::NotConnected.into()));
        }
        Ok(())
    }

    /// Copies the value of `key` to `value`, replacing what is in it; returns whether there is one,
    /// and leaves `value` empty where there is none. After an error it may hold anything.
    ///
    /// Nothing is allocated once `value` is large enough, and no system call is made unless the
    /// entry changes all the time.
    ///
    /// # Errors
    /// When the key holds another type, or the socket was needed and fails.
    #[inline]
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, AttachError> {
        let clock = sys::clock::realtime;
        match self.read(|reader| reader.get(self.database, key, clock, value))? {
            Answer::Found(()) => Ok(true),
            Answer::Absent => {
                value.clear();
                Ok(false)
            }
            Answer::Unclear => self.get_over_socket(key, value),
        }
    }

    /// Copies the bytes `start..=end` of the value of `key` to `value`, as GETRANGE counts them;
    /// nothing where there is no such key.
    ///
    /// # Errors
    /// As [`Attached::get`].
    pub fn getrange(
        &self,
        key: &[u8],
        range: (i64, i64),
        value: &mut Vec<u8>,
    ) -> Result<(), AttachError> {
        let clock = sys::clock::realtime;
        match self.read(|reader| reader.getrange(self.database, key, clock, range, value))? {
            Answer::Found(()) => return Ok(()),
            Answer::Absent => value.clear(),
            Answer::Unclear => {
                let (start, end) = (range.0.to_string(), range.1.to_string());
                let request: [&[u8]; 4] = [b"GETRANGE", key, start.as_bytes(), end.as_bytes()];
                match self.link().ask(&request)? {
                    Reply::Bulk(bytes) => *value = bytes,
                    other => return Err(unexpected(&other)),
                }
            }
        }
        Ok(())
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
        let clock = sys::clock::realtime;
        match self.read(|reader| reader.pin(self.database, key, clock))? {
            Answer::Found(Some(view)) => return Ok(Some(Value::Pinned(view))),
            Answer::Absent => return Ok(None),
            Answer::Found(None) | Answer::Unclear => {}
        }
        Ok(self.get(key, buffer)?.then_some(Value::Copied(buffer)))
    }

    /// Returns whether `key` exists.
    ///
    /// # Errors
    /// When the socket was needed and fails.
    pub fn exists(&self, key: &[u8]) -> Result<bool, AttachError> {
        let clock = sys::clock::realtime;
        match self.read(|reader| reader.exists(self.database, key, clock))? {
            Answer::Found(()) => Ok(true),
            Answer::Absent => Ok(false),
            Answer::Unclear => Ok(self.integer(&[b"EXISTS", key])? != 0),
        }
    }

    /// Returns the length of the string at `key` in bytes; 0 where there is none.
    ///
    /// # Errors
    /// As [`Attached::get`].
    pub fn strlen(&self, key: &[u8]) -> Result<u64, AttachError> {
        let clock = sys::clock::realtime;
        match self.read(|reader| reader.strlen(self.database, key, clock))? {
            Answer::Found(length) => Ok(length),
            Answer::Absent => Ok(0),
            Answer::Unclear => Ok(self.integer(&[b"STRLEN", key])? as u64),
        }
    }

    /// Returns when `key` expires, as milliseconds since the Unix epoch; `None` where it does not
    /// exist, `Some(None)` where it has no time to live.
    ///
    /// # Errors
    /// When the socket was needed and fails.
    pub fn expiry(&self, key: &[u8]) -> Result<Option<Option<UnixMs>>, AttachError> {
        let clock = sys::clock::realtime;
        match self.read(|reader| reader.expiry(self.database, key, clock))? {
            Answer::Found(expiry) => Ok(Some(expiry)),
            Answer::Absent => Ok(None),
            Answer::Unclear => Ok(match self.integer(&[b"PEXPIRETIME", key])? {
                -2 => None,
                -1 => Some(None),
                at => Some(Some(UnixMs(at))),
            }),
        }
    }

    /// Reads one-sidedly, and maps new segments where the arena has some.
    #[inline(always)]
    fn read<'a, T>(
        &'a self,
        mut attempt: impl FnMut(&'a Reader<Mapped>) -> Outcome<T>,
    ) -> Result<Answer<T>, AttachError> {
        for _ in 0..REFRESHES_MAX {
            match attempt(&self.reader) {
                Outcome::Found(value) => return Ok(Answer::Found(value)),
                Outcome::Absent => return Ok(Answer::Absent),
                Outcome::WrongType => return Err(AttachError::WrongType),
                Outcome::Busy => break,
                Outcome::NeedSegments => self.refresh()?,
            }
        }
        Ok(Answer::Unclear)
    }

    #[cold]
    fn get_over_socket(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, AttachError> {
        match self.link().ask(&[b"GET", key])? {
            Reply::Bulk(bytes) => {
                *value = bytes;
                Ok(true)
            }
            Reply::Null => {
                value.clear();
                Ok(false)
            }
            other => Err(unexpected(&other)),
        }
    }

    fn integer(&self, request: &[&[u8]]) -> Result<i64, AttachError> {
        match self.link().ask(request)? {
            Reply::Integer(number) => Ok(number),
            other => Err(unexpected(&other)),
        }
    }

    #[cold]
    fn refresh(&self) -> Result<(), AttachError> {
        self.link().refresh(self.reader.segments())
    }

    fn link(&self) -> std::sync::MutexGuard<'_, Link> {
        self.link.lock().expect("no holder of the connection panics")
    }
}

/// What the memory answered.
enum Answer<T> {
    Found(T),
    Absent,
    /// Nothing: the server is asked instead.
    Unclear,
}

/// The connection: requests one at a time, and the descriptors that came with replies.
struct Link {
    stream: UnixStream,
    decoder: ValueDecoder,
    received: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    /// A request has failed before its reply was there whole: what comes next would be taken for
    /// the reply of another.
    is_broken: bool,
}

impl Link {
    fn new(stream: UnixStream) -> Link {
        Link {
            stream,
            decoder: ValueDecoder::default(),
            received: Vec::new(),
            descriptors: Vec::new(),
            is_broken: false,
        }
    }

    /// Sends one request and returns its reply; descriptors are kept in `descriptors`. After an
    /// error that is not the server's refusal, every further call fails.
    fn ask(&mut self, request: &[&[u8]]) -> Result<Reply, AttachError> {
        if self.is_broken {
            let text = "the connection to the server has failed before";
            return Err(AttachError::Io(io::Error::new(ErrorKind::NotConnected, text)));
        }
        self.is_broken = true;
        let reply = self.exchange(request)?;
        self.is_broken = false;
        match reply {
            Reply::Error(text) if text.starts_with(b"WRONGTYPE") => Err(AttachError::WrongType),
            Reply::Error(text) => {
                Err(AttachError::Refused(String::from_utf8_lossy(&text).into_owned()))
            }
            reply => Ok(reply),
        }
    }

    fn exchange(&mut self, request: &[&[u8]]) -> Result<Reply, AttachError> {
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
            let known = mapped.known().to_string();
            let reply = self.ask(&[b"SHM", b"SEGMENTS", known.as_bytes()])?;
            let (Some(Reply::Integer(epoch)), Some(Reply::Array(items))) =
                (field(&reply, "epoch"), field(&reply, "segments"))
            else {
                return Err(unexpected(&reply));
            };
            let live: Option<Vec<LiveSegment>> = items.chunks_exact(2).map(live_segment).collect();
            let live = live.ok_or_else(|| unexpected(&reply))?;
            let descriptors = std::mem::take(&mut self.descriptors);
            let count = Reply::Integer(descriptors.len() as i64);
            if field(&reply, "descriptors") != Some(&count) {
                return Err(unexpected(&reply));
            }
            if mapped.update(*epoch as u64, &live, &descriptors)? {
                return Ok(());
            }
        }
        Err(AttachError::Unexpected("segments without end".to_owned()))
    }
}

/// Returns the segment that a pair of index and serial number tells of.
fn live_segment(pair: &[Reply]) -> Option<LiveSegment> {
    let [Reply::Integer(index), Reply::Integer(serial)] = pair else { return None };
    Some(LiveSegment { index: u32::try_from(*index).ok()?, serial: u64::try_from(*serial).ok()? })
}

/// Returns the value of `name` in a reply that is a map, in either protocol's form.
fn field<'a>(reply: &'a Reply, name: &str) -> Option<&'a Reply> {
    let is_named = |key: &Reply| matches!(key, Reply::Bulk(bytes) if bytes == name.as_bytes());
    match reply {
        Reply::Map(pairs) => Some(&pairs.iter().find(|pair| is_named(&pair.0))?.1),
        Reply::Array(items) => {
            let pair = items.chunks_exact(2).find(|pair| is_named(&pair[0]))?;
            Some(&pair[1])
        }
        _ => None,
    }
}

fn unexpected(reply: &Reply) -> AttachError {
    AttachError::Unexpected(format!("{reply:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_that_comes_late_is_not_that_of_the_next_request() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut link = Link::new(ours);
        theirs.write_all(b"$1\r\n").unwrap();
        assert!(matches!(link.ask(&[b"GET", b"one"]), Err(AttachError::Io(_))));
        theirs.write_all(b"1\r\n").unwrap();
        for _ in 0..2 {
            match link.ask(&[b"GET", b"two"]) {
                Err(AttachError::Io(error)) => assert_eq!(error.kind(), ErrorKind::NotConnected),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn refusal_leaves_the_connection_whole() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut link = Link::new(ours);
        theirs.write_all(b"-ERR no\r\n-WRONGTYPE x\r\n:7\r\n").unwrap();
        assert!(matches!(link.ask(&[b"X"]), Err(AttachError::Refused(_))));
        assert!(matches!(link.ask(&[b"X"]), Err(AttachError::WrongType)));
        assert_eq!(link.ask(&[b"X"]).unwrap(), Reply::Integer(7));
    }
}
