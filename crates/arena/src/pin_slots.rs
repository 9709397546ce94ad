//! Which slots of a pin table are taken; a thread of its session claims one, pins, and gives it
//! back. The server's own threads are such a session too.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::pins::{self, PIN_SLOTS, PinMemory};
use crate::rules::{Rule, holds};
use crate::touches::Touch;

const GROUPS: usize = PIN_SLOTS.div_ceil(64);

/// A session's pin table and, in private memory, a bit for each slot in use.
pub(crate) struct PinSlots {
    memory: Arc<dyn PinMemory>,
    taken: [AtomicU64; GROUPS],
}

impl PinSlots {
    pub fn new(memory: Arc<dyn PinMemory>) -> PinSlots {
        PinSlots { memory, taken: Default::default() }
    }

    /// Publishes a pin on `block` in a free slot; `None` when all are taken. It holds if what led
    /// to the block still stands afterwards.
    pub fn pin<S: Deref<Target = PinSlots>>(slots: S, block: u64) -> Option<Pin<S>> {
        let slot = slots.claim()?;
        if holds(Rule::ReaderPins) {
            pins::publish(slots.memory.words(), slot, block);
        }
        Some(Pin { slots, slot })
    }

    /// Tells the server of a use.
    pub fn report(&self, touch: Touch) {
        pins::report(self.memory.words(), touch);
    }

    /// The lowest free slot: the writer's walk over the table stays short.
    fn claim(&self) -> Option<usize> {
        for (group, word) in self.taken.iter().enumerate() {
            let mut taken = word.load(Ordering::Relaxed);
            while taken != u64::MAX {
                let bit = (!taken).trailing_zeros();
                let slot = group * 64 + bit as usize;
                if slot >= PIN_SLOTS {
                    return None;
                }
                // SYNC POINT: the slot is empty. Pairs with the drop of the pin that was in it.
                let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                match word.compare_exchange_weak(taken, taken | 1 << bit, success, failure) {
                    Ok(_) => return Some(slot),
                    Err(found) => taken = found,
                }
            }
        }
        None
    }
}

/// A pin on one block; released when dropped.
pub(crate) struct Pin<S: Deref<Target = PinSlots>> {
    slots: S,
    slot: usize,
}

impl<S: Deref<Target = PinSlots>> Pin<S> {
    /// Returns what the pin is held with.
    pub fn slots(&self) -> &S {
        &self.slots
    }
}

impl<S: Deref<Target = PinSlots>> Drop for Pin<S> {
    fn drop(&mut self) {
        pins::release(self.slots.memory.words(), self.slot);
        let bit = 1 << (self.slot % 64);
        // SYNC POINT: the slot is empty. Pairs with the claim of whoever takes it next.
        self.slots.taken[self.slot / 64].fetch_and(!bit, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pins::HeapPins;

    #[test]
    fn every_slot_is_handed_out_once_and_again_after_release() {
        let slots = PinSlots::new(Arc::new(HeapPins::new()));
        let mut pins: Vec<_> =
            (0..PIN_SLOTS).map(|index| PinSlots::pin(&slots, 64 + index as u64)).collect();
        assert!(pins.iter().all(Option::is_some));
        assert!(PinSlots::pin(&slots, 1 << 20).is_none());
        let mut seen = 0;
        crate::pins::for_each_pinned(slots.memory.words(), |_| seen += 1);
        assert_eq!(seen, PIN_SLOTS);
        pins.remove(100);
        assert!(PinSlots::pin(&slots, 64).is_some());
    }
}
