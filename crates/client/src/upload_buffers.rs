//! The buffers to which the threads of a client write large values: upload memory of their session,
//! made when it pays, and reused.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use resp::Value as Reply;
use ring::UploadBuffer;

use crate::error::AttachError;
use crate::lane_connection::Lane;
use crate::session_uploads::{Commit, Mode, Uploads};
use crate::shm_session::ShmSession;
use crate::value_view::View;

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
/// Buffers that are kept for the next values. Those of creations that were dropped come on top,
/// until the next is asked for; the server allows 1024 in all.
const SPARES_MAX: usize = 8;
/// So many are kept of a connection that has them ahead of its values, if they have no more bytes.
const AHEAD_MAX: usize = 32;
const AHEAD_BYTES_MAX: usize = 4 << 20;
/// Buffers that are asked for together, so that there come to be more of them.
const ASKED_TOGETHER_MAX: usize = 2;
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
}

/// The upload buffers of one session.
pub struct UploadBuffers {
    state: Mutex<State>,
}

struct State {
    /// The one used last is the last.
    spares: Vec<UploadBuffer>,
    /// Where those begin that a view looks at still, and how large they are: spares once it does
    /// not. The server has given them anew, as their values were deleted.
    held: Vec<(u64, u64)>,
    /// How many have been asked for along with values.
    asked: usize,
    /// Bytes that find no buffer and are sent, before more memory is made.
    bytes_until_extend: u64,
}

/// Bytes of upload memory that become a value; dropped before, they are kept for another.
pub struct Upload {
    /// Absent once it is committed.
    buffer: Option<UploadBuffer>,
    length: usize,
    session: Arc<ShmSession>,
}

/// An upload that the server is asked to store.
pub struct Storing {
    commit: Commit,
    /// What is stored, until it is answered: nobody has its memory to write.
    buffer: Option<Arc<UploadBuffer>>,
    length: usize,
    /// Few buffers are left, and the server has to give more soon.
    is_urgent: bool,
    session: Arc<ShmSession>,
}

impl Upload {
    /// Returns a buffer of `length` bytes in the memory of `session` that is there already: the
    /// server is not asked.
    pub fn spare(session: &Arc<ShmSession>, length: usize, mode: Mode) -> Option<Upload> {
        let mut state = session.upload_buffers().state();
        if !state.held.is_empty() {
            state.take_back(&session.uploads());
        }
        // More of them, and some are to be given back.
        let buffer = (state.surplus() == 0).then(|| state.take(length, mode)).flatten();
        buffer.map(|buffer| Upload::new(session, length, buffer))
    }

    /// Returns a buffer of `length` bytes in the memory of `session`, which `send` asks for; `None`
    /// where the server gives none, or it is not worth it.
    ///
    /// # Errors
    /// When `send` fails, or the session's connection.
    pub fn allocate(
        session: &Arc<ShmSession>,
        length: usize,
        mode: Mode,
        send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Option<Upload>, AttachError> {
        let buffer = session.upload_buffers().allocate(session, length, mode, send)?;
        Ok(buffer.map(|buffer| Upload::new(session, length, buffer)))
    }

    fn new(session: &Arc<ShmSession>, length: usize, buffer: UploadBuffer) -> Upload {
        Upload { buffer: Some(buffer), length, session: Arc::clone(session) }
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

    /// Returns how many buffers of its size there may be ahead of the values, for a connection that
    /// does not wait for the server.
    pub fn ahead_max(&self) -> usize {
        let buffer = self.buffer.as_ref().expect("it has not been committed");
        (AHEAD_BYTES_MAX / buffer.len().max(1)).min(AHEAD_MAX)
    }

    /// Returns what stores it: where it is with [`Mode::Adopt`], if the server allows that. A
    /// buffer for the next value of its size is asked for along with it: a value costs one round
    /// trip. More are asked for until there are as many as `ahead`, where that is more than one.
    pub fn store(mut self, mode: Mode, ahead: usize) -> Storing {
        let buffer = self.buffer.take().expect("it is committed once");
        let session = Arc::clone(&self.session);
        let mode = match mode {
            Mode::Adopt if !session.uploads().may_adopt() => Mode::Copy,
            mode => mode,
        };
        let (count, is_urgent) = session.upload_buffers().state().ask(buffer.len(), ahead);
        let next = (buffer.len() as u64, count);
        let commit = Commit::new((&buffer, self.length as u64), mode, next);
        Storing { commit, buffer: Some(Arc::new(buffer)), length: self.length, is_urgent, session }
    }
}

impl Storing {
    /// Returns the requests, to be sent together over a lane of the session, that make it the value
    /// of `key` with SET's options `words`.
    pub fn requests<'a>(&'a self, key: &'a [u8], words: &[&'a [u8]]) -> Vec<Vec<&'a [u8]>> {
        self.commit.requests(key, words)
    }

    /// Returns whether the server is needed soon, as few buffers are left.
    pub fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Returns a view of what is being stored, where it was written. While that lives, its memory
    /// is nobody's to write, whatever becomes of the value.
    ///
    /// # Panics
    /// When it is answered.
    pub fn view(&self) -> View {
        let buffer = self.buffer.as_ref().expect("it is not answered yet");
        View::uploaded(Arc::clone(buffer), self.length)
    }

    /// Returns what SET would have replied, given the replies to its requests.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn finish(&mut self, replies: Vec<Reply>) -> Result<Reply, AttachError> {
        // Who looks at it has it still.
        self.buffer = None;
        let (uploads, (bytes, _)) = (self.session.uploads(), self.commit.next());
        let committed = uploads.committed(&self.commit, replies)?;
        let mut state = self.session.upload_buffers().state();
        state.spares.extend(committed.next);
        state.held.extend(committed.held.into_iter().map(|offset| (offset, bytes)));
        if committed.stored.is_err() {
            // It was left as it was.
            state.held.push(self.commit.place());
            state.take_back(&uploads);
        }
        committed.stored
    }
}

impl Drop for Storing {
    fn drop(&mut self) {
        self.session.upload_buffers().state().asked -= self.commit.next().1;
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
        if let Some(buffer) = self.buffer.take() {
            self.session.upload_buffers().state().spares.push(buffer);
        }
    }
}

impl UploadBuffers {
    /// Returns those of a session that has none.
    pub fn new() -> UploadBuffers {
        UploadBuffers {
            state: Mutex::new(State {
                spares: Vec::new(),
                held: Vec::new(),
                asked: 0,
                bytes_until_extend: BYTES_UNTIL_EXTEND_FIRST,
            }),
        }
    }

    /// Returns a buffer of `length` bytes; `None` where there is to be none.
    fn allocate(
        &self,
        session: &ShmSession,
        length: usize,
        mode: Mode,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Option<UploadBuffer>, AttachError> {
        let (uploads, bytes) = (session.uploads(), length as u64);
        let surplus = self.state().surplus();
        self.free_spares(&uploads, surplus, &mut send)?;
        if let Some(buffer) = self.state().take(length, mode) {
            return Ok(Some(buffer));
        }
        if uploads.bytes() > 0 {
            if let Some(buffer) = self.ask_for(&uploads, bytes, &mut send)? {
                return Ok(Some(buffer));
            }
            if self.free_spares(&uploads, usize::MAX, &mut send)? > 0
                && let Some(buffer) = self.ask_for(&uploads, bytes, &mut send)?
            {
                return Ok(Some(buffer));
            }
        }
        if !self.state().begin_to_extend(bytes, mode)
            || allowed(uploads.extend(bytes.max(RUN_BYTES_MIN)))?.is_none()
        {
            return Ok(None);
        }
        let buffer = self.ask_for(&uploads, bytes, &mut send)?;
        if buffer.is_some() {
            self.state().bytes_until_extend = BYTES_UNTIL_EXTEND_FIRST;
        }
        Ok(buffer)
    }

    /// Returns a buffer of `bytes` that the server gives; `None` where it gives none. One that a
    /// view looks at still is kept for later, and another asked for: until the server has given as
    /// many as it may.
    fn ask_for(
        &self,
        uploads: &Uploads,
        bytes: u64,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Option<UploadBuffer>, AttachError> {
        while let Some(offset) = allowed(uploads.allocate_range(bytes, &mut send))? {
            if let Some(buffer) = uploads.buffer_at(offset, bytes) {
                return Ok(Some(buffer));
            }
            self.state().held.push((offset, bytes));
        }
        Ok(None)
    }

    /// Gives back the oldest of what is kept, `count` of them or all; returns how many that were.
    fn free_spares(
        &self,
        uploads: &Uploads,
        count: usize,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<usize, AttachError> {
        let mut state = self.state();
        let count = count.min(state.spares.len());
        let freed: Vec<UploadBuffer> = state.spares.drain(..count).collect();
        drop(state);
        for buffer in freed {
            let offset = buffer.offset();
            drop(buffer);
            allowed(uploads.give_back(offset, &mut send))?;
        }
        Ok(count)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the smallest buffer that is kept and has `length` bytes. What is to be adopted takes
    /// all of its buffer for as long as it lives, and gets none that is much too large.
    fn take(&mut self, length: usize, mode: Mode) -> Option<UploadBuffer> {
        let bytes_max = if mode == Mode::Adopt { length + length / 4 } else { usize::MAX };
        // Of those of the same size the one used last: it is in the cache.
        let fitting = self.spares.iter().enumerate().rev();
        let fitting = fitting.filter(|(_, buffer)| (length..=bytes_max).contains(&buffer.len()));
        let (index, _) = fitting.min_by_key(|(_, buffer)| buffer.len())?;
        Some(self.spares.remove(index))
    }

    /// Returns how many of the oldest are more than what is kept.
    fn surplus(&self) -> usize {
        let bytes: usize = self.spares.iter().map(|buffer| buffer.len()).sum();
        let kept = if bytes <= AHEAD_BYTES_MAX { AHEAD_MAX } else { SPARES_MAX };
        self.spares.len().saturating_sub(kept)
    }

    /// Returns how many buffers of `bytes` are to be asked for along with a value, and whether they
    /// are needed soon: `ahead` is how many there are to be.
    fn ask(&mut self, bytes: usize, ahead: usize) -> (usize, bool) {
        let fitting = self.spares.iter().filter(|buffer| buffer.len() == bytes).count();
        let count = match ahead {
            0 | 1 => usize::from(self.spares.len() < SPARES_MAX),
            _ => ahead.saturating_sub(fitting + self.asked).min(ASKED_TOGETHER_MAX),
        };
        self.asked += count;
        (count, 2 * fitting <= ahead)
    }

    /// Makes spares of those that nobody looks at any more.
    fn take_back(&mut self, uploads: &Uploads) {
        let State { held, spares, .. } = self;
        held.retain(|(offset, bytes)| {
            let buffer = uploads.buffer_at(*offset, *bytes);
            let is_held = buffer.is_none();
            spares.extend(buffer);
            is_held
        });
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
