//! A value that a client has read.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use arena::reader::{KeptView, Target};
use ring::Mapped;
use sys::memfd_segments::private_copy::PrivateCopy;

use crate::error::check_process;
use crate::shm_session::ShmSession;
use crate::upload_buffers::Upload;

/// Values up to this size lie in the view itself.
const INLINE_BYTES_MAX: usize = 64;

/// The value of a key as it was when it was read, whatever happens to the key.
///
/// A large one that was read through shared memory is pinned: the slice is the server's memory, or
/// a copy where the views of the session hold their share of that already. The view keeps the
/// session that the pin belongs to, also after its client was dropped, and gives the memory back
/// when it is dropped. It outlives the server, too: the memory stays mapped as it was.
///
/// One thing takes pins away: a server that lives on and ends the session's connection, as by
/// CLIENT KILL. It may use the memory for other values from then on, so that a process whose
/// session is killed must not look at its pinned views any more.
pub struct View(Bytes);

enum Bytes {
    Inline { length: u8, bytes: [u8; INLINE_BYTES_MAX] },
    Owned(Vec<u8>),
    // Memory that this process has written, of which the server knows no value: it is there for
    // the next once nobody looks at it.
    Uploaded(Upload),
    // In this order: the pin is taken back before the session ends.
    Pinned { view: KeptView<Mapped>, session: Arc<ShmSession> },
}

impl View {
    pub(crate) fn uploaded(upload: Upload) -> View {
        View(Bytes::Uploaded(upload.viewed()))
    }

    pub(crate) fn pinned(view: KeptView<Mapped>, session: Arc<ShmSession>) -> View {
        View(Bytes::Pinned { view, session })
    }

    pub(crate) fn owned(bytes: Vec<u8>) -> View {
        View(Bytes::Owned(bytes))
    }

    /// Returns whether the bytes are those in the server's memory, and not a copy.
    pub fn is_pinned(&self) -> bool {
        matches!(self.0, Bytes::Pinned { .. } | Bytes::Uploaded(_))
    }

    /// Returns where in the server's memory the bytes lie, if they do: what SHM TAKE asks for.
    pub fn offset(&self) -> Option<u64> {
        match &self.0 {
            Bytes::Pinned { view, .. } => Some(view.offset()),
            Bytes::Inline { .. } | Bytes::Owned(_) | Bytes::Uploaded(_) => None,
        }
    }

    /// Returns the session whose pin holds the bytes, if one does.
    pub(crate) fn session(&self) -> Option<&Arc<ShmSession>> {
        match &self.0 {
            Bytes::Pinned { session, .. } => Some(session),
            Bytes::Inline { .. } | Bytes::Owned(_) | Bytes::Uploaded(_) => None,
        }
    }

    /// Maps `length` of the bytes, from the one at `start` on, once more, for this process to
    /// change: pages are copied when they are first written, and nobody else sees it. `None` where
    /// they are not in the server's memory, or the server does not hand out what that takes. What
    /// was not written yet is the value only as long as the view is there.
    pub fn private_copy(&self, start: usize, length: usize) -> Option<PrivateCopy> {
        let Bytes::Pinned { view, session } = &self.0 else { return None };
        let attached = session.attached()?;
        check_process(attached.generation()).ok()?;
        let is_inside = start.checked_add(length).is_some_and(|end| end <= view.len());
        let offset = view.offset() + start as u64;
        is_inside.then(|| attached.private_copy(offset, length).ok()).flatten()
    }

    /// Returns the bytes as a vector of the caller's, copied where they are not.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Bytes::Owned(bytes) => bytes,
            bytes => View(bytes).to_vec(),
        }
    }
}

impl Default for View {
    /// Returns a view of no bytes.
    #[inline]
    fn default() -> View {
        View(Bytes::Inline { length: 0, bytes: [0; INLINE_BYTES_MAX] })
    }
}

impl Target for View {
    /// A short value is copied to the view itself, at once to where it stays.
    #[inline]
    fn room(&mut self, length: usize) -> &mut [u8] {
        if length > INLINE_BYTES_MAX {
            self.0 = Bytes::Owned(vec![0; length]);
        } else if !matches!(self.0, Bytes::Inline { .. }) {
            *self = View::default();
        }
        match &mut self.0 {
            Bytes::Inline { length: kept, bytes } => {
                *kept = length as u8;
                &mut bytes[..length]
            }
            Bytes::Owned(bytes) => bytes,
            Bytes::Pinned { .. } | Bytes::Uploaded(_) => unreachable!("it was replaced above"),
        }
    }
}

impl Deref for View {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Bytes::Owned(bytes) => bytes,
            Bytes::Pinned { view, .. } => view,
            Bytes::Uploaded(upload) => upload,
        }
    }
}

impl From<Vec<u8>> for View {
    /// Returns a view of bytes that no server has.
    fn from(bytes: Vec<u8>) -> View {
        View::owned(bytes)
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "View({} bytes, pinned: {})", self.len(), self.is_pinned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_hold_their_bytes_whatever_their_size() {
        for before in [0, 64, 65] {
            for length in [0, 1, 63, 64, 65, 5000] {
                let bytes: Vec<u8> = (0..length).map(|index| index as u8).collect();
                let mut view = View::default();
                view.room(before).fill(0xFF);
                view.room(length).copy_from_slice(&bytes);
                assert_eq!((&*view, view.is_pinned()), (&*bytes, false));
                assert_eq!(view.into_vec(), bytes);
            }
        }
    }
}
