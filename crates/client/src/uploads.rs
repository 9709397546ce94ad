//! Values written where they are to lie: the calls under `put` and `create`.
//!
//! A session's upload memory is made over its connection, and used over that or over any of its
//! lanes: what sends is a parameter here, a function that takes some requests and returns as many
//! replies, such as [`crate::Lane::pipeline`]. How it works is written down in
//! docs/internals/shm-uploads.md.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use resp::Value as Reply;
use ring::{Room, UploadMemory};

use crate::error::{AttachError, accepted, unexpected};
use crate::link::{Link, field};

/// How often the client asks whether its memory is sealed, and how long it waits between.
const OPEN_ATTEMPTS_MAX: u32 = 10_000;
const OPEN_INTERVAL: Duration = Duration::from_millis(1);

/// What becomes of the bytes of an upload that is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The server copies them, and the room is free at once.
    Copy,
    /// They stay where they are: nothing is copied. Only for processes of the server's own user,
    /// and readers trust this process not to change them any more.
    Adopt,
}

/// The upload memory of one session.
pub struct Uploads {
    link: Arc<Mutex<Link>>,
    runs: Mutex<Vec<Arc<UploadMemory>>>,
    may_adopt: bool,
}

impl Uploads {
    /// Makes upload memory of at least `bytes` for the session of `link`.
    pub(crate) fn open(link: &Arc<Mutex<Link>>, bytes: u64) -> Result<Uploads, AttachError> {
        let (run, may_adopt) = open_run(link, bytes)?;
        Ok(Uploads { link: Arc::clone(link), runs: Mutex::new(vec![run]), may_adopt })
    }

    /// Makes more of it, at least `bytes`. It lasts as long as the session.
    ///
    /// # Errors
    /// When the server does not answer, or the session may have no more.
    pub fn extend(&self, bytes: u64) -> Result<(), AttachError> {
        let (run, _) = open_run(&self.link, bytes)?;
        self.runs().push(run);
        Ok(())
    }

    /// Returns whether values may be committed by [`Mode::Adopt`].
    pub fn may_adopt(&self) -> bool {
        self.may_adopt
    }

    /// Returns the size of all of it in bytes.
    pub fn bytes(&self) -> u64 {
        self.runs().iter().map(|run| run.bytes()).sum()
    }

    /// Returns room for `bytes`, asked for by `send`; one round trip.
    ///
    /// # Errors
    /// When the server refuses, as where no room of that size is free, or `send` fails.
    pub fn allocate(
        &self,
        bytes: u64,
        send: impl FnOnce(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<Room, AttachError> {
        let text = bytes.to_string();
        let mut replies = send(&[&[b"SHM", b"ALLOC", text.as_bytes()]])?.into_iter();
        self.room(replies.next(), bytes)
    }

    /// Makes `key` hold the first `length` bytes of `room`, with `options` of SET, and asks for
    /// room for `next` bytes where that is more than 0; one round trip. Returns what SET would
    /// reply, and the new room, if there is one. After an error the room is as it was in the
    /// server, and can be given back by [`Uploads::give_back`] with its offset.
    ///
    /// # Errors
    /// When the server refuses the value, or `send` fails.
    pub fn commit(
        &self,
        (room, length): (Room, u64),
        mode: Mode,
        (key, options): (&[u8], &[&[u8]]),
        next: u64,
        send: impl FnOnce(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<(Reply, Option<Room>), AttachError> {
        let texts = [room.offset(), length, next].map(|number| number.to_string());
        let [offset, length, bytes] = texts.each_ref().map(|text| text.as_bytes());
        let mode: &[u8] = if mode == Mode::Adopt { b"ADOPT" } else { b"COPY" };
        let mut commit: Vec<&[u8]> = vec![b"SHM", b"COMMIT", offset, length, mode, key];
        commit.extend_from_slice(options);
        let allocate: [&[u8]; 3] = [b"SHM", b"ALLOC", bytes];
        // From here on the bytes are the server's.
        drop(room);
        let requests: [&[&[u8]]; 2] = [&commit, &allocate];
        let count = if next > 0 { 2 } else { 1 };
        let mut replies = send(&requests[..count])?.into_iter();
        let stored = accepted(replies.next().ok_or_else(none)?)?;
        let next = (next > 0).then(|| self.room(replies.next(), next));
        Ok((stored, next.and_then(Result::ok)))
    }

    /// Gives back the room at `offset` that was not committed.
    ///
    /// # Errors
    /// When there is none, or `send` fails.
    pub fn give_back(
        &self,
        offset: u64,
        send: impl FnOnce(&[&[&[u8]]]) -> Result<Vec<Reply>, AttachError>,
    ) -> Result<(), AttachError> {
        let text = offset.to_string();
        let mut replies = send(&[&[b"SHM", b"FREE", text.as_bytes()]])?.into_iter();
        accepted(replies.next().ok_or_else(none)?).map(drop)
    }

    /// Returns the room that `reply` to ALLOC names.
    fn room(&self, reply: Option<Reply>, bytes: u64) -> Result<Room, AttachError> {
        let reply = accepted(reply.ok_or_else(none)?)?;
        let Reply::Integer(offset) = reply else { return Err(unexpected(&reply)) };
        let offset = u64::try_from(offset).map_err(|_| unexpected(&reply))?;
        let room = self.runs().iter().find_map(|run| run.room(offset, bytes));
        room.ok_or_else(|| unexpected(&reply))
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Arc<UploadMemory>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn none() -> AttachError {
    AttachError::Unexpected("fewer replies than requests".to_owned())
}

/// Makes a run and maps it; returns it once it can be used, and whether values may stay in it.
fn open_run(link: &Mutex<Link>, bytes: u64) -> Result<(Arc<UploadMemory>, bool), AttachError> {
    let mut link = link.lock().expect("no holder of the connection panics");
    let reply = link.ask(&[b"SHM", b"UPLOAD", bytes.to_string().as_bytes()])?;
    let number = |name: &str| match field(&reply, name) {
        Some(Reply::Integer(number)) => u64::try_from(*number).map_err(|_| unexpected(&reply)),
        _ => Err(unexpected(&reply)),
    };
    let (offset, segment_bytes) = (number("offset")?, number("segment-bytes")?);
    let may_adopt = number("adopt")? == 1;
    let descriptors = std::mem::take(&mut link.descriptors);
    if number("descriptors")? != descriptors.len() as u64 {
        return Err(unexpected(&reply));
    }
    let memory = UploadMemory::map(offset, segment_bytes, &descriptors)?;
    let text = offset.to_string();
    for _ in 0..OPEN_ATTEMPTS_MAX {
        match link.ask(&[b"SHM", b"OPEN", text.as_bytes()])? {
            Reply::Integer(0) => std::thread::sleep(OPEN_INTERVAL),
            Reply::Integer(1) => {
                memory.touch();
                return Ok((Arc::new(memory), may_adopt));
            }
            other => return Err(unexpected(&other)),
        }
    }
    Err(AttachError::Unexpected("upload memory that is never sealed".to_owned()))
}
