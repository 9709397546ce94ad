//! The rooms that the threads of a client write large values to: upload memory of their session,
//! made when the first one is wanted, and used again.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use resp::Value as Reply;
use ring::Room;

use crate::error::AttachError;
use crate::session::Session;
use crate::uploads::{Mode, Uploads};

/// Rooms that are kept for the next values while others are asked for. Those of creations that were
/// dropped come on top, until the next is asked for; the server allows 1024 in all.
const SPARES_MAX: usize = 4;
/// The least memory that is made at once.
const RUN_BYTES_MIN: u64 = 16 << 20;

/// The rooms of one session.
#[derive(Default)]
pub struct Rooms {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    uploads: Option<Arc<Uploads>>,
    /// The server allows none: it is not asked again.
    is_refused: bool,
    spares: Vec<Room>,
}

/// Bytes of upload memory that become a value; dropped before, they are kept for another.
pub struct Upload {
    /// Absent once it has been committed.
    room: Option<Room>,
    length: usize,
    session: Arc<Session>,
}

/// What became of an upload.
pub enum Committed {
    /// The server has replied as to a SET.
    Replied(Reply),
    /// It is of another session than the connection: nothing was sent.
    Elsewhere(Upload),
}

impl Upload {
    /// Returns room for `length` bytes in the memory of `session`, whose lane `send` is of; `None`
    /// where the server gives none.
    ///
    /// # Errors
    /// When the lane fails.
    pub fn new(
        session: &Arc<Session>,
        length: usize,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Option<Upload>, AttachError> {
        let rooms = session.rooms();
        let uploads = rooms.state().uploads.clone();
        if let Some(uploads) = uploads {
            rooms.free_spares(&uploads, SPARES_MAX, &mut send)?;
        }
        let room = match rooms.take_spare(length) {
            Some(room) => Some(room),
            None => rooms.allocate(session, length as u64, &mut send)?,
        };
        let session = Arc::clone(session);
        Ok(room.map(|room| Upload { room: Some(room), length, session }))
    }

    /// Returns whether it is of `session`.
    pub fn is_of(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    /// Makes it the value of `key`, with SET's options `words`: left where it is with `adopt`,
    /// where the server allows that. Asks for room for the next of its size along with it.
    ///
    /// # Errors
    /// When the lane fails, or the server refuses.
    pub fn commit(
        mut self,
        adopt: bool,
        (key, words): (&[u8], &[&[u8]]),
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Reply, AttachError> {
        let rooms = self.session.rooms();
        let (room, uploads) = (self.room.take(), rooms.state().uploads.clone());
        let (room, uploads) = room.zip(uploads).expect("it is committed once, and was allocated");
        let mode = if adopt && uploads.may_adopt() { Mode::Adopt } else { Mode::Copy };
        let next = if rooms.has_spare(room.len()) { 0 } else { room.len() as u64 };
        let (offset, value) = (room.offset(), (room, self.length as u64));
        match uploads.commit(value, mode, (key, words), next, &mut send) {
            Ok((reply, spare)) => {
                rooms.keep(spare);
                Ok(reply)
            }
            Err(AttachError::Io(error)) => Err(AttachError::Io(error)),
            Err(error) => {
                // It is open still, and nobody would ever close it.
                allowed(uploads.give_back(offset, &mut send))?;
                Err(error)
            }
        }
    }
}

impl Deref for Upload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room.as_ref().expect("it has not been committed")[..self.length]
    }
}

impl DerefMut for Upload {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.room.as_mut().expect("it has not been committed")[..self.length]
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.session.rooms().keep(self.room.take());
    }
}

impl Rooms {
    /// Returns a room that has been kept, and is large enough but not by much.
    fn take_spare(&self, length: usize) -> Option<Room> {
        let spares = &mut self.state().spares;
        let index = spares.iter().position(|room| fits(room, length))?;
        Some(spares.remove(index))
    }

    fn has_spare(&self, length: usize) -> bool {
        self.state().spares.iter().any(|room| fits(room, length))
    }

    /// Keeps `room` for another value.
    fn keep(&self, room: Option<Room>) {
        self.state().spares.extend(room);
    }

    /// Returns a new room; `None` where the server gives none.
    fn allocate(
        &self,
        session: &Session,
        bytes: u64,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Option<Room>, AttachError> {
        let Some(uploads) = self.uploads(session, bytes)? else { return Ok(None) };
        if let Some(room) = allowed(uploads.allocate(bytes, &mut send))? {
            return Ok(Some(room));
        }
        self.free_spares(&uploads, 0, &mut send)?;
        if let Some(room) = allowed(uploads.allocate(bytes, &mut send))? {
            return Ok(Some(room));
        }
        if allowed(uploads.extend(bytes.max(RUN_BYTES_MIN)))?.is_none() {
            return Ok(None);
        }
        allowed(uploads.allocate(bytes, &mut send))
    }

    /// Gives back the oldest of what is kept, all but `spares_max`.
    fn free_spares(
        &self,
        uploads: &Uploads,
        spares_max: usize,
        mut send: impl FnMut(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<(), AttachError> {
        let mut spares = std::mem::take(&mut self.state().spares);
        let kept = spares.split_off(spares.len().saturating_sub(spares_max));
        self.state().spares.extend(kept);
        for room in spares {
            let offset = room.offset();
            drop(room);
            allowed(uploads.give_back(offset, &mut send))?;
        }
        Ok(())
    }

    /// Returns the session's upload memory, made for at least `bytes` where there is none.
    fn uploads(&self, session: &Session, bytes: u64) -> Result<Option<Arc<Uploads>>, AttachError> {
        let mut state = self.state();
        if state.uploads.is_none() && !state.is_refused {
            let opened = allowed(Uploads::open(session.link(), bytes.max(RUN_BYTES_MIN)))?;
            state.is_refused = opened.is_none();
            state.uploads = opened.map(Arc::new);
        }
        Ok(state.uploads.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether `room` is large enough for `length` bytes, and not by much.
fn fits(room: &Room, length: usize) -> bool {
    room.len() >= length && room.len() - length <= length / 4
}

/// Returns what was had, or `None` where the server refuses: the value goes another way then.
fn allowed<T>(result: Result<T, AttachError>) -> Result<Option<T>, AttachError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(AttachError::Io(error)) => Err(AttachError::Io(error)),
        Err(_) => Ok(None),
    }
}
