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
/// The least memory that is made at once.
const RUN_BYTES_MIN: u64 = 16 << 20;

impl Mode {
    /// Returns the least bytes of a value that is written to upload memory, so that this becomes of
    /// it: what is shorter is sent.
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
    session: Arc<ShmSession>,
}

impl Upload {
    /// Returns a buffer of `length` bytes in the memory of `session` that is there already: the
    /// server is not asked.
    pub fn spare(session: &Arc<ShmSession>, length: usize, mode: Mode) -> Option<Upload> {
        let mut state = session.upload_buffers().state();
        // More of them, and some are to be given back.
        let buffer = (state.spares.len() <= SPARES_MAX).then(|| state.take(length, mode)).flatten();
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
        let is_full = session.upload_buffers().state().spares.len() >= SPARES_MAX;
        let next = if is_full { 0 } else { buffer.len() as u64 };
        Storing { commit: Commit::new((buffer, self.length as u64), mode, next), session }
    }
}

impl Storing {
    /// Returns the requests, to be sent together over a lane of the session, that make it the value
    /// of `key` with SET's options `words`.
    pub fn requests<'a>(&'a self, key: &'a [u8], words: &[&'a [u8]]) -> Vec<Vec<&'a [u8]>> {
        self.commit.requests(key, words)
    }

    /// Returns what SET would have replied, given the replies to its requests.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn finish(self, replies: Vec<Reply>) -> Result<Reply, AttachError> {
        let uploads = self.session.uploads();
        let committed = uploads.committed(&self.commit, replies)?;
        let left = if committed.stored.is_err() { uploads.refused(&self.commit) } else { None };
        self.session.upload_buffers().state().spares.extend(committed.next.into_iter().chain(left));
        committed.stored
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
        let state = State { spares: Vec::new(), bytes_until_extend: BYTES_UNTIL_EXTEND_FIRST };
        UploadBuffers { state: Mutex::new(state) }
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
        // One more is used, and kept after that.
        self.free_spares(&uploads, SPARES_MAX - 1, &mut send)?;
        if let Some(buffer) = self.state().take(length, mode) {
            return Ok(Some(buffer));
        }
        if uploads.bytes() > 0 {
            if let Some(buffer) = allowed(uploads.allocate(bytes, &mut send))? {
                return Ok(Some(buffer));
            }
            if self.free_spares(&uploads, 0, &mut send)? > 0
                && let Some(buffer) = allowed(uploads.allocate(bytes, &mut send))?
            {
                return Ok(Some(buffer));
            }
        }
        if !self.state().begin_to_extend(bytes, mode)
            || allowed(uploads.extend(bytes.max(RUN_BYTES_MIN)))?.is_none()
        {
            return Ok(None);
        }
        let buffer = allowed(uploads.allocate(bytes, &mut send))?;
        if buffer.is_some() {
            self.state().bytes_until_extend = BYTES_UNTIL_EXTEND_FIRST;
        }
        Ok(buffer)
    }

    /// Gives back the oldest of what is kept, all but `spares_max`; returns how many that were.
    fn free_spares(
        &self,
        uploads: &Uploads,
        spares_max: usize,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<usize, AttachError> {
        let mut state = self.state();
        let surplus = state.spares.len().saturating_sub(spares_max);
        let freed: Vec<UploadBuffer> = state.spares.drain(..surplus).collect();
        drop(state);
        for buffer in freed {
            let offset = buffer.offset();
            drop(buffer);
            allowed(uploads.give_back(offset, &mut send))?;
        }
        Ok(surplus)
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
