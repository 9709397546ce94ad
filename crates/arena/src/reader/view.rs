//! A value of the arena as a slice.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::pin_slots::{Pin, PinSlots};

use super::{Reader, SegmentView};

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

/// A pinned value that keeps its reader, and so the mapping, for as long as it lives; else as a
/// pinned [`View`].
pub struct KeptView<V> {
    start: *const u8,
    length: usize,
    pin: Pin<KeptSlots<V>>,
}

/// The pin slots of a reader, which it keeps.
pub(super) struct KeptSlots<V>(Arc<Reader<V>>);

impl<V> KeptSlots<V> {
    /// Returns the slots of `reader`, if it has some.
    pub(super) fn of(reader: &Arc<Reader<V>>) -> Option<KeptSlots<V>> {
        reader.slots.is_some().then(|| KeptSlots(Arc::clone(reader)))
    }
}

impl<V> Deref for KeptSlots<V> {
    type Target = PinSlots;

    fn deref(&self) -> &PinSlots {
        self.0.slots.as_ref().expect("looked at when this was made, and never taken away")
    }
}

// SAFETY: the bytes do not change while the view lives, any thread may release a pin, and the
// reader may be shared and sent.
unsafe impl<V: Send + Sync> Send for KeptView<V> {}
// SAFETY: as above; a shared view is only read.
unsafe impl<V: Send + Sync> Sync for KeptView<V> {}

impl<V> KeptView<V> {
    /// As [`View::pinned`]; `pin` is one in the slots of the reader that has the range mapped.
    pub(super) fn pinned(start: *const u8, length: u64, pin: Pin<KeptSlots<V>>) -> KeptView<V> {
        KeptView { start, length: length as usize, pin }
    }
}

impl<V: SegmentView> KeptView<V> {
    /// Returns where in the arena's range the value begins. While the view lives no other value
    /// does.
    pub fn offset(&self) -> u64 {
        let base = self.pin.slots().0.segments().base();
        self.start.addr() as u64 - base.addr().get() as u64
    }
}

impl<V> Deref for KeptView<V> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped for as long as the reader lives, which the pin keeps. The
        // writer neither changes, moves nor frees a block after it has seen the pin, and the check
        // that followed the pin showed that it will see it.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<V> fmt::Debug for KeptView<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeptView({} bytes)", self.length)
    }
}
