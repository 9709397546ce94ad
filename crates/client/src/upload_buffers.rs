//! The buffers to which the threads of a client write large values: upload memory of their session,
//! made when it pays, and reused.

use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arena::UploadError;
use resp::Value as Reply;
use ring::UploadBuffer;
use sys::fork::Generation;

use crate::error::AttachError;
use crate::lane_connection::Lane;
use crate::session_uploads::{BufferRequests, Commit, Mode, Uploads};
use crate::shm_session::ShmSession;

/// Values of this size and more are written to upload memory, below it they are sent: a value of 16
/// KiB passes through a lane about as fast, one of 64 KiB takes nearly twice as long. Measured in
/// bench/results/2026-11-22-061501-local.json, the rows "SET", "lane" and "put copy".
const UPLOAD_BYTES_MIN: usize = 32 * 1024;
/// From here on values are written to upload memory that are to stay where they are: what is sent
/// passes from processor to processor twice, what stays only when it is read.
const ADOPTED_UPLOAD_BYTES_MIN: usize = 8 * 1024;
/// So many bytes of such values are put by SET before memory is made for them. That is whole
/// segments, up to 64 MiB each, which the server and this process touch, and which count in full
/// towards the server's limit: too much for a client that puts a few.
const BYTES_UNTIL_EXTEND_FIRST: u64 = 1 << 20;
/// So many bytes are put by SET before the server is asked again, where it has made none.
const BYTES_UNTIL_EXTEND_RETRY: u64 = 64 << 20;
/// So many buffers are kept for the next values, of whatever sizes. Those of creations that were
/// dropped come on top, until the next value is stored; the server allows 1024 in all.
const SPARES_MAX: usize = 8;
/// Smaller ones are kept beyond that, for who puts values of a few sizes in turn: so many, and so
/// many bytes.
const SMALL_SPARES_MAX: usize = 128;
const SMALL_SPARE_BYTES_MAX: usize = 16 << 20;
/// So many views look at buffers at most, of the 1024 that the server allows. From then on a value
/// is the server's before its thread looks at it.
const VIEWED_MAX: usize = 768;
/// So many buffers are lost, and so many bytes of them, before the session is ended and made anew:
/// the server has back then what nobody knows of.
const LOST_MAX: usize = 100;
const LOST_BYTES_MAX: usize = 32 << 20;
/// The least memory that is made at once.
const RUN_BYTES_MIN: u64 = 16 << 20;

impl Mode {
    /// Returns from how many bytes on a value is written to upload memory and committed in this
    /// mode. Shorter values are sent.
    pub const fn upload_bytes_min(self) -> usize {
        match self {
            Mode::Copy | Mode::Copied => UPLOAD_BYTES_MIN,
            Mode::Adopt => ADOPTED_UPLOAD_BYTES_MIN,
        }
    }

    /// Returns the sizes of the buffers that a value of `length` bytes may have. What is to be
    /// adopted takes all of its buffer for as long as it lives, and gets none that is much too
    /// large.
    pub fn buffer_bytes(self, length: usize) -> RangeInclusive<usize> {
        let most = if self == Mode::Adopt { length.saturating_add(length / 4) } else { usize::MAX };
        length..=most
    }
}

/// The upload buffers of one session.
pub struct UploadBuffers {
    state: Mutex<State>,
    generation: Generation,
}

struct State {
    /// The one used last is the last.
    spares: Vec<UploadBuffer>,
    /// How many views look at.
    viewed: usize,
    /// How many connections have lost that ended before they were answered, and how many bytes
    /// those have: the server may have given or kept them, and nobody was told.
    lost: usize,
    lost_bytes: usize,
    /// Bytes that find no buffer and are sent, before more memory is made.
    bytes_until_extend: u64,
}

/// Bytes of upload memory that become a value; dropped before, they are kept for another.
pub struct Upload {
    /// Absent once it is committed.
    buffer: Option<UploadBuffer>,
    length: usize,
    is_viewed: bool,
    session: Arc<ShmSession>,
}

/// What the server gives that is asked for a buffer.
enum Given {
    Buffer(UploadBuffer),
    /// No further one: where there are too many, whatever memory there is.
    Nothing {
        are_too_many: bool,
    },
}

/// An upload that the server is asked to store.
pub struct Storing {
    commit: Commit,
    is_answered: bool,
    session: Arc<ShmSession>,
}

impl Upload {
    /// Returns a buffer of `length` bytes in the memory of `session` that is there already: the
    /// server is not asked.
    pub fn spare(session: &Arc<ShmSession>, length: usize, mode: Mode) -> Option<Upload> {
        let buffer = session.upload_buffers().state().take(length, mode);
        buffer.map(|buffer| Upload::new(session, length, buffer))
    }

    /// Returns a buffer of `length` bytes in the memory of `session`, which `send` asks for; `None`
    /// where the server gives none, or it is not worth it. `count` are asked for: the others are
    /// for the next values.
    ///
    /// # Errors
    /// When `send` fails, or the session's connection.
    pub fn allocate(
        session: &Arc<ShmSession>,
        length: usize,
        count: usize,
        mode: Mode,
        send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Option<Upload>, AttachError> {
        let uploads = session.uploads();
        let buffer = session.upload_buffers().allocate(&uploads, (length, count), mode, send);
        let buffer = buffer.inspect_err(|_| lose(session, length, count))?;
        Ok(buffer.map(|buffer| Upload::new(session, length, buffer)))
    }

    fn new(session: &Arc<ShmSession>, length: usize, buffer: UploadBuffer) -> Upload {
        let session = Arc::clone(session);
        Upload { buffer: Some(buffer), length, is_viewed: false, session }
    }

    /// Returns whether it is of `session`.
    pub fn is_of(&self, session: &Arc<ShmSession>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    /// Copies `value` to it, over a `lane` of its session, to be stored next under `key`; returns
    /// the mode to store it by, where it is not to stay.
    ///
    /// # Errors
    /// As [`Lane::fill`].
    pub fn fill(&mut self, lane: &mut Lane, value: &[u8], key: &[u8]) -> Result<Mode, AttachError> {
        let buffer = self.buffer.as_mut().expect("it has not been committed");
        lane.fill(buffer, value, Mode::Copy, key)
    }

    /// Returns the size of its buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.as_ref().expect("it has not been committed").len()
    }

    /// Returns whether the server need not be told of it: views look at few, so that one may look
    /// at this, and there is nothing to give back along with it.
    pub fn may_be_held(&self) -> bool {
        let state = self.session.upload_buffers().state();
        state.viewed < VIEWED_MAX && state.surplus() == 0
    }

    /// Returns it for a view to look at.
    pub fn viewed(mut self) -> Upload {
        self.session.upload_buffers().state().viewed += 1;
        self.is_viewed = true;
        self
    }

    /// Returns what stores it: where it is with [`Mode::Adopt`], if the server allows that. A
    /// buffer for the next value of its size is asked for along with it: a value costs one round
    /// trip.
    pub fn store(mut self, mode: Mode) -> Storing {
        let buffer = self.buffer.take().expect("it is committed once");
        let session = Arc::clone(&self.session);
        let mode = match mode {
            Mode::Adopt if !session.uploads().may_adopt() => Mode::Copy,
            mode => mode,
        };
        let mut state = session.upload_buffers().state();
        let count = usize::from(state.fitting(buffer.len()) < SPARES_MAX);
        let along = state.requests(buffer.len(), count);
        drop(state);
        // The bytes are the server's from here on.
        let commit = Commit::new((&buffer, self.length as u64), mode, along);
        Storing { commit, is_answered: false, session }
    }
}

impl Storing {
    /// Returns the requests, to be sent together over a lane of the session, that make it the value
    /// of `key` with SET's options `words`.
    pub fn requests<'a>(&'a self, key: &'a [u8], words: &[&'a [u8]]) -> Vec<Vec<&'a [u8]>> {
        self.commit.requests(key, words)
    }

    /// Returns what is asked for along with it.
    pub fn along(&self) -> &BufferRequests {
        self.commit.along()
    }

    /// Returns what SET would have replied, given the replies to its requests.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn finish(&mut self, replies: Vec<Reply>) -> Result<Reply, AttachError> {
        self.is_answered = true;
        let uploads = self.session.uploads();
        let committed = uploads.committed(&self.commit, replies)?;
        let mut state = self.session.upload_buffers().state();
        state.spares.extend(committed.next);
        if committed.stored.is_err() {
            // It was left as it was.
            let (offset, bytes) = self.commit.place();
            state.spares.extend(uploads.buffer_at(offset, bytes as u64));
        }
        committed.stored
    }
}

impl Drop for Storing {
    fn drop(&mut self) {
        if !self.is_answered {
            let (bytes, count) = self.along().asked();
            lose(&self.session, bytes, count + 1);
        }
    }
}

/// Notes that `count` buffers of `bytes` were asked for, or written to and to be stored, and that
/// nobody will be told what has become of them.
fn lose(session: &ShmSession, bytes: usize, count: usize) {
    if !session.upload_buffers().are_own() {
        return;
    }
    let mut state = session.upload_buffers().state();
    state.lost += count;
    state.lost_bytes = state.lost_bytes.saturating_add(count.saturating_mul(bytes));
    if state.lost > LOST_MAX || state.lost_bytes > LOST_BYTES_MAX {
        session.end();
    }
}

impl Deref for Upload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer.as_ref().expect("it has not been committed")[..self.length]
    }
}

impl DerefMut for Upload {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut().expect("it has not been committed")[..self.length]
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        if !self.session.upload_buffers().are_own() {
            std::mem::forget(buffer);
            return;
        }
        let mut state = self.session.upload_buffers().state();
        state.spares.push(buffer);
        state.viewed -= usize::from(self.is_viewed);
    }
}

impl UploadBuffers {
    /// Returns those of a session that has none.
    pub fn new() -> UploadBuffers {
        UploadBuffers { state: Mutex::new(State::new()), generation: Generation::current() }
    }

    /// Returns a buffer of `length` bytes that `send` asks for, with some more if `count` is more
    /// than 1; `None` where there is to be none.
    fn allocate(
        &self,
        uploads: &Uploads,
        (length, count): (usize, usize),
        mode: Mode,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Option<UploadBuffer>, AttachError> {
        let bytes = length as u64;
        if uploads.bytes() > 0 {
            let mut has_freed = false;
            let are_too_many = loop {
                let are_too_many = match self.ask_for(uploads, (length, count), &mut send)? {
                    Given::Buffer(buffer) => return Ok(Some(buffer)),
                    Given::Nothing { are_too_many } => are_too_many,
                };
                if has_freed || !self.free_spares(&mut send)? {
                    break are_too_many;
                }
                has_freed = true;
            };
            if are_too_many {
                return Ok(None);
            }
        }
        let is_extended = self.state().begin_to_extend(bytes, mode);
        if !is_extended || allowed(uploads.extend(bytes.max(RUN_BYTES_MIN)))?.is_none() {
            return Ok(None);
        }
        let Given::Buffer(buffer) = self.ask_for(uploads, (length, count), &mut send)? else {
            return Ok(None);
        };
        self.state().bytes_until_extend = BYTES_UNTIL_EXTEND_FIRST;
        Ok(Some(buffer))
    }

    /// Asks the server for `count` buffers of `bytes`; returns one of those that it gives.
    fn ask_for(
        &self,
        uploads: &Uploads,
        (bytes, count): (usize, usize),
        send: impl FnOnce(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Given, AttachError> {
        let requests = self.state().requests(bytes, count);
        let replies = requests.send(send)?;
        let are_too_many = replies.iter().any(is_for_their_number);
        let mut given = uploads.given(&requests, replies.into_iter());
        let buffer = given.pop();
        self.state().spares.extend(given);
        Ok(buffer.map_or(Given::Nothing { are_too_many }, Given::Buffer))
    }

    /// Gives all spares back; returns whether there were any.
    fn free_spares(
        &self,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<bool, AttachError> {
        let mut state = self.state();
        let count = state.spares.len();
        let requests = BufferRequests::new(state.free(count), 0, 0);
        drop(state);
        if count > 0 {
            // One that is refused is the server's: nothing is left to be done about it.
            requests.send(&mut send)?;
        }
        Ok(count > 0)
    }

    /// Returns false in a forked child: they are the parent's, whose threads may have held a lock.
    fn are_own(&self) -> bool {
        self.generation.is_current()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new() -> State {
        State {
            spares: Vec::new(),
            viewed: 0,
            lost: 0,
            lost_bytes: 0,
            bytes_until_extend: BYTES_UNTIL_EXTEND_FIRST,
        }
    }

    /// Returns the smallest buffer that is kept and that a value of `length` bytes may have.
    fn take(&mut self, length: usize, mode: Mode) -> Option<UploadBuffer> {
        let bytes = mode.buffer_bytes(length);
        // Of those of the same size the one used last: it is in the cache.
        let fitting = self.spares.iter().enumerate().rev();
        let fitting = fitting.filter(|(_, buffer)| bytes.contains(&buffer.len()));
        let (index, _) = fitting.min_by_key(|(_, buffer)| buffer.len())?;
        Some(self.spares.remove(index))
    }

    /// Returns how many of the oldest are more than what is kept.
    fn surplus(&self) -> usize {
        let mut bytes = 0;
        let kept = self.spares.iter().rev().zip(1..).take_while(|(buffer, count)| {
            bytes += buffer.len();
            *count <= SPARES_MAX || *count <= SMALL_SPARES_MAX && bytes <= SMALL_SPARE_BYTES_MAX
        });
        self.spares.len() - kept.count()
    }

    /// Drops the `count` oldest of what is kept; returns where they begin, to be given back.
    fn free(&mut self, count: usize) -> Vec<u64> {
        self.spares.drain(..count).map(|buffer| buffer.offset()).collect()
    }

    /// Returns the requests for `count` buffers of `bytes`, which also give back what is too much.
    fn requests(&mut self, bytes: usize, count: usize) -> BufferRequests {
        let surplus = self.surplus();
        BufferRequests::new(self.free(surplus), bytes, count)
    }

    /// Returns how many buffers of `bytes` there are for the next values.
    fn fitting(&self, bytes: usize) -> usize {
        self.spares.iter().filter(|buffer| buffer.len() == bytes).count()
    }

    /// Counts `bytes` that found no buffer; returns whether the caller is to have memory made for
    /// them. Others send meanwhile, and so they do for long where there is none. Whoever creates a
    /// large value where it stays does not want it sent, and counts for many.
    fn begin_to_extend(&mut self, bytes: u64, mode: Mode) -> bool {
        let is_many = mode == Mode::Adopt && bytes >= UPLOAD_BYTES_MIN as u64;
        let counted = if is_many { bytes.max(BYTES_UNTIL_EXTEND_FIRST) } else { bytes };
        let is_over = counted >= self.bytes_until_extend;
        self.bytes_until_extend =
            if is_over { BYTES_UNTIL_EXTEND_RETRY } else { self.bytes_until_extend - counted };
        is_over
    }
}

/// Returns what was had, or `None` where the server refuses: the value goes another way then.
fn allowed<T>(result: Result<T, AttachError>) -> Result<Option<T>, AttachError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(AttachError::Io(error)) => Err(AttachError::Io(error)),
        Err(_) => Ok(None),
    }
}

/// Returns whether the server refuses a buffer as there are as many as it allows, whatever memory
/// there is.
fn is_for_their_number(reply: &Reply) -> bool {
    let Reply::Error(text) = reply else { return false };
    text.ends_with(UploadError::TooManyRanges.to_string().as_bytes())
}
