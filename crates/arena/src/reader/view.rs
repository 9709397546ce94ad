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
    source: Source<'a>,
}

enum Source<'a> {
    Copied(&'a [u8]),
    Pinned(Pinned<&'a PinSlots>),
}

impl<'a> View<'a> {
    pub(super) fn copied(bytes: &'a [u8]) -> View<'a> {
        View { source: Source::Copied(bytes) }
    }

    pub(super) fn pinned(value: Pinned<&'a PinSlots>) -> View<'a> {
        View { source: Source::Pinned(value) }
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
            Source::Pinned(value) => value,
        }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "View({} bytes, pinned: {})", self.len(), self.is_pinned())
    }
}

/// A pinned value that keeps its reader, and so the mapping, for as long as it lives; else as a
/// pinned [`View`].
pub struct KeptView<V> {
    value: Pinned<KeptSlots<V>>,
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

impl<V> KeptView<V> {
    pub(super) fn pinned(value: Pinned<KeptSlots<V>>) -> KeptView<V> {
        KeptView { value }
    }
}

impl<V: SegmentView> KeptView<V> {
    /// Returns where in the arena's range the value begins. While the view lives no other value
    /// does.
    pub fn offset(&self) -> u64 {
        let base = self.value.pin.slots().0.segments().base();
        self.value.start.addr() as u64 - base.addr().get() as u64
    }
}

impl<V> Deref for KeptView<V> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.value
    }
}

impl<V> fmt::Debug for KeptView<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeptView({} bytes)", self.len())
    }
}

/// The bytes of a pinned block; `S` leads to the pin slots of the reader that has it mapped, which
/// it borrows or keeps.
pub(super) struct Pinned<S: Deref<Target = PinSlots>> {
    start: *const u8,
    length: usize,
    pin: Pin<S>,
}

// SAFETY: beside the pin, which is sent only where it may be, this is an address of bytes that
// nobody changes while the pin is held, so that it makes no difference which thread reads them.
unsafe impl<S: Deref<Target = PinSlots>> Send for Pinned<S> where Pin<S>: Send {}
// SAFETY: as for `Send`; sharing it gives `&[u8]` and `&Pin` alone.
unsafe impl<S: Deref<Target = PinSlots>> Sync for Pinned<S> where Pin<S>: Sync {}

impl<S: Deref<Target = PinSlots>> Pinned<S> {
    /// `start..start + length` is inside the range that the reader of `pin` has mapped. The caller
    /// hands it out only once it has seen that `pin` came in time.
    pub fn new(start: *const u8, length: u64, pin: Pin<S>) -> Pinned<S> {
        Pinned { start, length: length as usize, pin }
    }
}

impl<S: Deref<Target = PinSlots>> Deref for Pinned<S> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is not null, and bytes have no alignment. The range is inside the one
        // mapping of the reader, by the contract of `new`, which stays for as long as the reader:
        // the pin borrows or keeps that. All of the mapping is initialised: segments, or zeroes.
        // The writer neither changes, moves nor frees a block after it has seen the pin, and the
        // check that followed the pin showed that it will see it, so that nobody writes the bytes
        // while the slice lives.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}
