//! A value of the arena as a slice.

use std::fmt;
use std::ops::Deref;

use crate::pin_slots::{Pin, PinSlots};

/// The value of a key: where it lies in the arena, pinned, or a copy in the caller's buffer.
///
/// A pinned value stays as it was when it was read, whatever happens to its key. Its memory cannot
/// be used for anything else until the view is dropped.
pub struct View<'a> {
    start: *const u8,
    length: usize,
    source: Source<'a>,
}

enum Source<'a> {
    Copied(&'a [u8]),
    Pinned(#[expect(dead_code, reason = "held for its drop")] Pin<&'a PinSlots>),
}

// SAFETY: the bytes do not change while the view lives, and any thread may release a pin.
unsafe impl Send for View<'_> {}
// SAFETY: as above; a shared view is only read.
unsafe impl Sync for View<'_> {}

impl<'a> View<'a> {
    pub(super) fn copied(bytes: &'a [u8]) -> View<'a> {
        View { start: bytes.as_ptr(), length: bytes.len(), source: Source::Copied(bytes) }
    }

    /// `start..start + length` is inside the mapped range. The caller hands the view out only once
    /// it has seen that `pin` came in time.
    pub(super) fn pinned(start: *const u8, length: u64, pin: Pin<&'a PinSlots>) -> View<'a> {
        View { start, length: length as usize, source: Source::Pinned(pin) }
    }

    /// Returns whether the bytes are those in the arena, and not a copy.
    pub fn is_pinned(&self) -> bool {
        matches!(self.source, Source::Pinned(_))
    }
}

impl Deref for View<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.source {
            Source::Copied(bytes) => bytes,
            // SAFETY: the range is mapped for as long as the reader lives, which `'a` borrows. The
            // writer neither changes, moves nor frees a block after it has seen the pin, and the
            // check that followed the pin showed that it will see it.
            Source::Pinned(_) => unsafe { std::slice::from_raw_parts(self.start, self.length) },
        }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "View({} bytes, pinned: {})", self.length, self.is_pinned())
    }
}
