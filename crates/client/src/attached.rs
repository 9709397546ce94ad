//! A session that reads the arena of a server on the same host.
//!
//! docs/internals/shm-attach.md describes how it attaches.

use std::io::ErrorKind;
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arena::reader::{Outcome, Reader, View};
use base::{DatabaseIndex, KeyHasher, UnixMs};
use resp::Value as Reply;
use ring::lane::LaneShape;
use ring::{Mapped, SharedPins};
use sys::fork::Generation;
use sys::memfd_segments::private_copy::PrivateCopy;

use crate::control_connection::{ControlConnection, ControlGuard, SharedControl, field};
use crate::error::{AttachError, check_process, unexpected};
use crate::lane_connection::Lane;
use crate::session_uploads::Uploads;

/// The version of the attach protocol that this client speaks.
const ATTACH_VERSION: i64 = 4;
/// How often a read maps new segments before it asks over the socket.
pub(crate) const REFRESHES_MAX: u32 = 4;

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
/// cannot answer goes over the lane or the socket, one request at a time.
///
/// The pins of a session end with its connection: when an operation fails with
/// [`AttachError::Io`], views that are still held must not be looked at any more.
pub struct Attached {
    reader: Arc<Reader<Mapped>>,
    control: Arc<SharedControl>,
    lane: Option<Mutex<Lane>>,
    database: DatabaseIndex,
    generation: Generation,
}

impl Attached {
    /// Attaches to the server behind the unix socket at `path`, to read database 0. `password` is
    /// sent where the server asks for one.
    ///
    /// # Errors
    /// When the server does not answer, refuses (another user, `shm-reads no`), or has an arena of
    /// another layout.
    pub fn connect(path: &Path, password: Option<&[u8]>) -> Result<Attached, AttachError> {
        let control = ControlConnection::connect(path, password)?;
        Attached::over(&SharedControl::new(control))
    }

    /// Attaches by the unix connection `stream`, which the caller has made, or was given; the
    /// session is that of the process that has connected. Otherwise as [`Attached::connect`].
    ///
    /// # Errors
    /// As [`Attached::connect`].
    pub fn over_stream(
        stream: UnixStream,
        password: Option<&[u8]>,
    ) -> Result<Attached, AttachError> {
        let control = ControlConnection::over(stream, password)?;
        Attached::over(&SharedControl::new(control))
    }

    /// Attaches by the connection `shared`, whose peer has to be authenticated.
    pub(crate) fn over(shared: &Arc<SharedControl>) -> Result<Attached, AttachError> {
        let mut control = shared.lock();
        let reply = control.ask(&[b"SHM", b"ATTACH"])?;
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
        let descriptor = control.descriptors.pop().ok_or_else(|| unexpected(&reply))?;
        let pins = SharedPins::open(descriptor, pin_bytes as u64)?;
        let mapped = Mapped::reserve(segment_bytes as u64, (span / segment_bytes) as u32)?;
        control.refresh(&mapped)?;
        let reader = Reader::open(mapped, Some(Arc::new(pins))).map_err(AttachError::Arena)?;
        let (control, database) = (Arc::clone(shared), DatabaseIndex(0));
        let (reader, generation) = (Arc::new(reader), Generation::current());
        Ok(Attached { reader, control, lane: None, database, generation })
    }

    /// Asks over a lane from now on, not over the socket, what the memory cannot answer.
    ///
    /// # Errors
    /// As [`Attached::new_lane`].
    pub fn with_lane(mut self, shape: LaneShape) -> Result<Attached, AttachError> {
        let mut lane = self.new_lane(shape)?;
        let number = self.database.0.to_string();
        lane.ask(&[b"SELECT", number.as_bytes()])?;
        self.lane = Some(Mutex::new(lane));
        Ok(self)
    }

    /// Returns a lane of its own for one thread, to send any command. It begins with database 0,
    /// and ends when dropped.
    ///
    /// # Errors
    /// When the server does not answer or allows no further lane.
    pub fn new_lane(&self, shape: LaneShape) -> Result<Lane, AttachError> {
        Lane::open(&self.control, shape)
    }

    /// Returns memory of at least `bytes` to write values to before they are committed, by this
    /// session or by any lane of it.
    ///
    /// # Errors
    /// When the server does not answer, or allows no (further) upload memory.
    pub fn uploads(&self, bytes: u64) -> Result<Uploads, AttachError> {
        Uploads::open(&self.control, bytes)
    }

    /// Reads `database` from now on.
    ///
    /// # Errors
    /// When the server has no such database, or does not answer.
    pub fn select(&mut self, database: DatabaseIndex) -> Result<(), AttachError> {
        let number = database.0.to_string();
        self.ask(&[b"SELECT", number.as_bytes()])?;
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
        match self.control().is_over()? {
            true => Err(AttachError::Io(ErrorKind::NotConnected.into())),
            false => Ok(()),
        }
    }

    /// Returns the hasher of the keys in the memory that is read.
    pub fn hasher(&self) -> &KeyHasher {
        self.reader.hasher()
    }

    /// Copies the value of `key` to `value`, replacing what is in it; returns whether there is one,
    /// and leaves `value` empty where there is none. After an error it may hold anything.
    ///
    /// Nothing is allocated once `value` is large enough, and no system call is made unless the
    /// entry changes all the time.
    ///
    /// # Errors
    /// When the key holds another type, or the server had to be asked and fails.
    #[inline]
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, AttachError> {
        let clock = sys::clock::realtime;
        match self.read(|reader| reader.get(self.database, key, clock, value))? {
            Answer::Found(()) => Ok(true),
            Answer::Absent => {
                value.clear();
                Ok(false)
            }
            Answer::Unclear => self.get_elsewhere(key, value),
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
                match self.ask(&request)? {
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
        match self.read(|reader| reader.pin(self.database, key, clock, buffer))? {
            Answer::Found(Some(view)) => Ok(Some(Value::Pinned(view))),
            Answer::Found(None) => Ok(Some(Value::Copied(buffer))),
            Answer::Absent => Ok(None),
            Answer::Unclear => {
                Ok(self.get_elsewhere(key, buffer)?.then_some(Value::Copied(buffer)))
            }
        }
    }

    /// Returns whether `key` exists.
    ///
    /// # Errors
    /// When the server had to be asked and fails.
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
    /// When the server had to be asked and fails.
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
        mut attempt: impl FnMut(&'a Arc<Reader<Mapped>>) -> Outcome<T>,
    ) -> Result<Answer<T>, AttachError> {
        check_process(self.generation)?;
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
    fn get_elsewhere(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, AttachError> {
        match self.ask(&[b"GET", key])? {
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
        match self.ask(request)? {
            Reply::Integer(number) => Ok(number),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&self, request: &[&[u8]]) -> Result<Reply, AttachError> {
        match &self.lane {
            Some(lane) => lane.lock().expect("no holder of the lane panics").ask(request),
            None => self.control().ask(request),
        }
    }

    /// Returns the process that it was made in.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns what reads.
    #[inline]
    pub(crate) fn reader(&self) -> &Arc<Reader<Mapped>> {
        &self.reader
    }

    #[cold]
    pub(crate) fn refresh(&self) -> Result<(), AttachError> {
        self.control().refresh(self.reader.segments())
    }

    /// Maps `length` bytes at `offset`, which a pin holds, once more: what this process writes
    /// there is its own.
    pub(crate) fn private_copy(
        &self,
        offset: u64,
        length: usize,
    ) -> Result<PrivateCopy, AttachError> {
        let segments = self.reader.segments();
        let unmapped = || AttachError::Io(ErrorKind::NotFound.into());
        let serials = segments.serials_of(offset, length).ok_or_else(unmapped)?;
        let descriptors = self.control().descriptors_of(&serials)?;
        Ok(segments.private_copy(offset, length, &descriptors)?)
    }

    fn control(&self) -> ControlGuard<'_> {
        self.control.lock()
    }
}

/// What the memory answered.
pub enum Answer<T> {
    Found(T),
    Absent,
    /// Nothing: the server is asked instead.
    Unclear,
}
