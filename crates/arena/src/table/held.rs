//! Values that this process pins where they lie, to send them from there.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::arena::Arena;
use crate::pin_slots::{Pin, PinSlots};

use super::{Entry, EntryId, Table};

/// A large value as it is now: it neither moves nor changes until this is dropped, whatever becomes
/// of its key. Its memory counts as used until then.
pub struct HeldValue {
    start: NonNull<u8>,
    length: usize,
    _pin: Pin<Arc<PinSlots>>,
    /// Keeps the memory mapped; dropped after the pin.
    _arena: Arc<Arena>,
}

// SAFETY: the bytes do not change while the pin holds, and the pin may be released by any thread.
unsafe impl Send for HeldValue {}
// SAFETY: as above; sharing gives no more than `&[u8]`.
unsafe impl Sync for HeldValue {}

/// How many values [`Table::hold_sparing`] leaves to others to hold.
const SPARE_PINS: usize = 128;

impl Table {
    /// Holds the value of the large entry at `id`; `None` for a small entry, for one that a client
    /// can write, and when this process holds [`crate::pins::PIN_SLOTS`] values already: the caller
    /// copies instead.
    pub fn hold(&self, id: EntryId) -> Option<HeldValue> {
        self.hold_with(id, 0)
    }

    /// As [`Table::hold`], for one who holds many values already: `None` also where this process
    /// can hold only a few more.
    pub fn hold_sparing(&self, id: EntryId) -> Option<HeldValue> {
        self.hold_with(id, SPARE_PINS)
    }

    /// As [`Table::hold_sparing`], of an entry of this table.
    pub fn hold_entry(&self, entry: &Entry<'_>) -> Option<HeldValue> {
        self.hold_value_of(entry, SPARE_PINS)
    }

    fn hold_with(&self, id: EntryId, spare: usize) -> Option<HeldValue> {
        self.hold_value_of(&self.entry(id), spare)
    }

    fn hold_value_of(&self, entry: &Entry<'_>, spare: usize) -> Option<HeldValue> {
        let block = entry.large_block().filter(|_| !entry.is_adopted())?;
        // Whoever changes, moves or frees the block holds this table too, so that the pin is in
        // time without a second look.
        let value = entry.value();
        let (start, length) = (NonNull::from(value).cast(), value.len());
        HeldValue::new(&self.arena, block, start, length, spare)
    }
}

impl HeldValue {
    /// Pins `block`, which the caller keeps as it is until then, and in which a value of `length`
    /// bytes is at `start`, where more than `spare` pins are free.
    pub(crate) fn new(
        arena: &Arc<Arena>,
        block: u64,
        start: NonNull<u8>,
        length: usize,
        spare: usize,
    ) -> Option<HeldValue> {
        let pins = arena.own_pins().clone();
        let pin = match spare {
            0 => PinSlots::pin(pins, block),
            _ => PinSlots::pin_sparing(pins, block, spare),
        }?;
        Some(HeldValue { start, length, _pin: pin, _arena: arena.clone() })
    }

    /// Returns the hold on `range` of the value.
    ///
    /// # Panics
    /// When the range is not inside the value.
    pub fn narrow(mut self, range: Range<usize>) -> HeldValue {
        let part = NonNull::from(&self.as_ref()[range]);
        (self.start, self.length) = (part.cast(), part.len());
        self
    }
}

impl AsRef<[u8]> for HeldValue {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `hold` took both from a slice of the arena, which `_arena` keeps mapped, and
        // while `_pin` holds the block nobody changes, moves or reuses it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl fmt::Debug for HeldValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HeldValue").field("length", &self.length).finish_non_exhaustive()
    }
}
